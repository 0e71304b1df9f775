# Two commands for newcomers: `make rehearse` and `make test`. Both install what they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BLUEPRINT ?= blueprints/rehearsal.yaml
HOST_PACKAGES := python3-venv iproute2 openssh-client util-linux debian-archive-keyring mmdebstrap systemd-container \
  apt-cacher-ng e2fsprogs
VM_PACKAGES := qemu-system-x86 qemu-utils
VM_TEST_PACKAGES := nbdkit
VAGRANT_PACKAGES := vagrant vagrant-libvirt libvirt-daemon-system libvirt-clients dnsmasq-base qemu-system-x86 qemu-utils
TEST_PACKAGES := chromium
TORCH := torch==2.13.0+cpu
WORKERS ?= 3
# Where it is set, as in many containers, every start of hpcforge would compile its modules again: a third of the time.
export PYTHONDONTWRITEBYTECODE =

.PHONY: rehearse full-lab full-lab-13 test test-every-kill test-nvidia test-shared-storage test-vagrant test-vm fuzz check install host host-test host-vagrant host-vm host-vm-test bench

rehearse: install
	$(BIN)/hpcforge rehearse up $(BLUEPRINT)
	$(BIN)/hpcforge apply $(BLUEPRINT) --yes

# Six nodes with all that stands between `ssh login` and a finished job. docs/operations.md has what they last took.
full-lab:
	$(MAKE) rehearse BLUEPRINT=blueprints/full-lab.yaml

FULL_LAB_13 := $(VENV)/full-lab-13.yaml
full-lab-13: install
	sed 's/release: "12"/release: "13"/' blueprints/full-lab.yaml > $(FULL_LAB_13)
	$(MAKE) rehearse BLUEPRINT=$(FULL_LAB_13)

test: host-test host-vm install check $(VENV)/.torch
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --budget

# Minutes longer: hpcforge is killed after each event of an apply, not after every fourth.
test-every-kill: host-test install
	$(BIN)/python -m pytest tests/faults/test_killed.py --every-boundary

# Minutes longer, most of all without KVM: machines boot and run a job. docs/virtual-machines.md has the last output.
test-vm: host-vm-test install
	$(BIN)/python -m pytest -s tests/vm --vm

# As many minutes: Vagrant starts two machines, by hand and by hpcforge. docs/virtual-machines.md has the last output.
test-vagrant: host-vagrant install
	$(BIN)/python -m pytest -s tests/vagrant --vagrant

# NVIDIA's repository, with stubs of its packages, on a node that restarts: minutes. docs/software.md says what was seen.
test-nvidia: host-test install
	$(BIN)/python -m pytest -s tests/e2e/test_nvidia_stubs.py tests/e2e/test_nvidia_rollout.py --nvidia

# Storage that nodes really share: minutes, for GlusterFS of the site's and of ours, an object server and many applies. docs/operations.md has
# what it last printed.
test-shared-storage: host-test install
	$(BIN)/python -m pytest -s tests/e2e/test_shared_storage.py tests/e2e/test_served_glusterfs.py --shared-storage

# 10,000 files instead of 500 for `validate`; another SEED, other files.
SEED ?= 2
fuzz: install
	$(BIN)/python -m pytest -s tests/fuzz --fuzz-inputs 10000 --fuzz-seed $(SEED)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/ansible_content.py

install: host $(VENV)/.installed

# $(call have,PACKAGES,WHAT FOR). Services of packages that are only now installed are not started: a rehearsal runs its own package proxy.
define have
@missing=""; for package in $(1); do \
  dpkg-query -Wf '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done; \
if [ -n "$$missing" ]; then echo "installing on this machine, $(2):$$missing"; \
  apt-get update -q && \
  { systemctl mask apt-cacher-ng.service >/dev/null 2>&1; \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; }; fi
endef

host:
	$(call have,$(HOST_PACKAGES),for rehearsals)

# What only the tests need: the page of `hpcforge design` is looked at in a real browser.
host-test: host
	$(call have,$(TEST_PACKAGES),for the tests)

# What `rehearse up --on vm` starts.
host-vm: host
	$(call have,$(VM_PACKAGES),for virtual machines)

# What only their tests need: a drive that loses its write cache.
host-vm-test: host-vm
	$(call have,$(VM_TEST_PACKAGES),for tests of virtual machines)

# What `vagrant up` in vagrant/ and `rehearse up --on vagrant` start.
host-vagrant: host
	$(call have,$(VAGRANT_PACKAGES),for Vagrant)

$(VENV)/.installed: pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

# For the tests of smoke_tests/ on this machine: a CPU build, from the usual index or else from the vendor's.
$(VENV)/.torch: $(VENV)/.installed
	$(BIN)/pip install -q $(TORCH) || $(BIN)/pip install -q --extra-index-url https://download.pytorch.org/whl/cpu $(TORCH)
	touch $@

# What things cost: minutes on an idle machine, as root. Compare ratios within one run.
bench: install
	$(BIN)/python benchmarks/converge.py
	$(BIN)/python benchmarks/ansible.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/walk.py
