# Two commands for newcomers: `make rehearse` and `make test`. Both install what they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BLUEPRINT ?= blueprints/rehearsal.yaml
HOST_PACKAGES := python3-venv iproute2 openssh-client util-linux debian-archive-keyring mmdebstrap systemd-container \
  apt-cacher-ng e2fsprogs
VM_PACKAGES := qemu-system-x86 qemu-utils
NETBOOT_PACKAGES := dnsmasq-base nginx-light ipxe busybox-static fdisk grub-common grub-pc-bin grub-efi-amd64-bin mtools \
  dosfstools
VM_TEST_PACKAGES := nbdkit
VAGRANT_PACKAGES := vagrant vagrant-libvirt libvirt-daemon-system libvirt-clients dnsmasq-base qemu-system-x86 qemu-utils
METAL_TEST_PACKAGES := $(NETBOOT_PACKAGES) ipxe-qemu ovmf
TEST_PACKAGES := chromium prometheus ipmitool openipmi curl jq pdsh rsync $(NETBOOT_PACKAGES)
WORKERS ?= 3
# What is installed is fixed by locks/: a site's constraints could only make it fail.
PIP = PIP_CONSTRAINT=/dev/null $(BIN)/python -m pip
# What `make lock` writes the locks with.
UV := uv==0.13.9
# Where it is set, as in many containers, every start of hpcforge would compile its modules again: a third of the time.
export PYTHONDONTWRITEBYTECODE =

.PHONY: rehearse full-lab full-lab-13 full-lab-14 software-lab pictures test test-stories test-suites test-all test-debian-14 test-faults test-gpu test-hosts test-landing landing test-every-kill test-kills test-metal test-monitoring test-newest test-nvidia test-shared-storage test-templates test-training test-vagrant test-vm fuzz break-roles references check house install develop lock host host-test host-vagrant host-vm host-vm-test bench bench-metal bench-quick bench-quick-compare bench-record simulate-isolation

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

# Without the directory: Debian 14 has no SSSD.
FULL_LAB_14 := $(VENV)/full-lab-14.yaml
full-lab-14: install
	sed 's/release: "12"/release: "14"/; /^  directory:/d' blueprints/full-lab.yaml > $(FULL_LAB_14)
	$(MAKE) rehearse BLUEPRINT=$(FULL_LAB_14)
# Containers, MPI, modules and frameworks for jobs, on three nodes. docs/jobs.md has what it last took.
software-lab:
	$(MAKE) rehearse BLUEPRINT=blueprints/software-lab.yaml

# Linters run beside the tests, since both need a core; what they say comes last. 10 minutes on two quiet cores.
MAIN_JOB := tests/stories/main_job
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
test: host-test develop $(VENV)/.torch
	@{ $(CHECK); } > $(VENV)/check.log 2>&1 & check=$$!; \
	$(PYTEST) $(MAIN_JOB) tests/fuzz tests/unit --budget test; tested=$$?; \
	wait $$check; checked=$$?; echo; echo "make check:"; cat $(VENV)/check.log; exit $$((tested || checked))

# Every story on real nodes that is not on demand. With MEASURED=--write-minutes the table in CONTRIBUTING.md is written.
MEASURED ?=
test-stories: host-test host-vm develop $(VENV)/.torch
	$(BIN)/python tests/support/ansible_content.py
	$(PYTEST) tests/stories --budget test-stories $(MEASURED)

# Hours: all there is. It goes on where one of them fails.
test-all:
	$(MAKE) -k test test-stories test-debian-14 test-faults test-hosts test-every-kill test-kills test-metal test-monitoring test-nvidia test-shared-storage test-suites test-templates test-training test-vm test-vagrant

# What CI runs after `make test`, USED_MIN minutes after it began: the stories that fit (tools/stories.py).
USED_MIN ?= 10
test-landing: host-test host-vm develop
	$(BIN)/python -m tools.stories --used-min $(USED_MIN)

# Before commits land, as the last one of them: the next stories have their turn in CI. It takes a line of
# `make bench-record` since the last landing, and commits it.
HISTORY := benchmarks/history.csv
landing:
	@! git diff --quiet $$(git log -1 --format=%H -- .ci/landing) -- $(HISTORY) || \
	{ echo "$(HISTORY) has no new line: run make bench-record"; exit 1; }
	echo $$(($$(cat .ci/landing) + 1)) > .ci/landing
	git commit -m "ci: landing $$(cat .ci/landing)" .ci/landing $(HISTORY)

# Minutes longer: hpcforge is killed after each event of an apply, not after every fourth.
test-every-kill: host-test develop
	$(BIN)/python -m pytest tests/stories/faults/test_killed.py --every-boundary

# Hours: with Slurm, growth, replacement and removal are killed after every event, and those of the full lab, and a
# change of it, RANDOM_KILLS times at random moments (of KILLS_SEED). How many ended as an undisturbed apply is printed.
RANDOM_KILLS ?= 40
KILLS_SEED ?= 1
test-kills: host-test develop
	$(BIN)/python -m pytest -s tests/stories/kills/test_kills.py --kills --every-boundary --random-kills $(RANDOM_KILLS) --kills-seed $(KILLS_SEED)

# The tests without nodes, with the newest versions that pyproject.toml allows. What failed is printed with the versions
# that differ from the lock: `make lock` would bring them.
NEWEST := $(VENV)/newest
test-newest: host-test
	test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install -q --upgrade pip setuptools
	$(NEWEST)/bin/python -m pip install -q --upgrade --upgrade-strategy eager -e '.[dev]'
	$(NEWEST)/bin/python tests/support/install_torch.py
	$(NEWEST)/bin/python -m pytest -m "not lab" -n $(WORKERS) --dist loadfile

# Minutes longer, most of all without KVM: machines boot and run a job. docs/virtual-machines.md has the last output.
test-vm: host-vm-test develop
	$(BIN)/python -m pytest -s tests/stories/vm --vm

# A machine without an operating system, from its controller to ssh: minutes. docs/bare-metal.md says what was seen.
test-metal: host-vm-test develop
	$(call have,$(METAL_TEST_PACKAGES),for machines that boot from the network)
	$(BIN)/python -m pytest -s tests/stories/metal --metal

# As many minutes: Vagrant starts two machines, by hand and by hpcforge. docs/virtual-machines.md has the last output.
test-vagrant: host-vagrant develop
	$(BIN)/python -m pytest -s tests/stories/vagrant --vagrant

# Two hours: nine faults on the full lab, each told in time and nothing else, ten quiet minutes, and an hour beside a worker
# that lies in every answer. docs/monitoring.md has what was seen.
test-monitoring: host-test develop
	$(BIN)/python -m pytest -s tests/stories/monitoring/test_nine_faults.py tests/stories/trust/test_lying_hour.py --monitoring

# NVIDIA's repository, with stubs of its packages, on a node that restarts, and Debian's CUDA toolkit (1.6 GB): minutes.
# docs/software.md says what was seen.
test-nvidia: host-test develop
	$(BIN)/python -m pytest -s tests/stories/nvidia/test_stubs.py tests/stories/nvidia/test_rollout.py tests/stories/jobs/test_compilers.py --nvidia

# examples/ on nodes: minutes, for GlusterFS of the site and of nodes, an object server and many applies.
test-shared-storage: host-test develop
	$(BIN)/python -m pytest -s tests/stories/storage/test_shared_storage.py tests/stories/storage/test_served_glusterfs.py --shared-storage

# Minutes: Debian 14, whose packages change each day until it is released.
test-debian-14: host-test develop $(VENV)/.torch
	$(BIN)/python -m pytest -s --debian-14 tests/stories/rehearsal/test_debian_fourteen.py tests/stories/fabric/test_slurm_fourteen.py

# Minutes: faults are planted one at a time on eight nodes, found and named, and then none: docs/verification.md has what was found.
HEALTHY_RUNS ?= 2
test-faults: host-test develop $(VENV)/.torch
	$(BIN)/python -m pytest -s tests/stories/verification/test_faults.py --faults --healthy-runs $(HEALTHY_RUNS) --fault-table $(VENV)/faults.md

# An hour: what hosts had before is planted on one of four nodes, named by hpcforge, and removed by the remedy that it printed.
# The seconds are written for docs/host-faults.md, which `pytest --refresh-golden tests/unit/support` then writes.
test-hosts: host-test develop
	$(BIN)/python -m pytest -n 2 --maxschedchunk 1 tests/stories/hosts/test_all_faults.py --hosts --fault-table tests/stories/hosts/measured.yaml

# An hour: OSU, mpi4py, Slurm's own tests and ReFrame on three nodes. SUITES names a folder with their sources, which are
# fetched by hand; without one it prints the commands, and ends with 2.
SUITES ?=
test-suites: host-test develop
	$(BIN)/python -m pytest -s tests/stories/jobs/test_suites.py --suites $(if $(SUITES),--suite-sources $(SUITES))

# Most of an hour: each template of `hpcforge init`, from nothing to a report of its acceptance, a site of eleven mixed nodes, and a university's.
test-templates: host-test develop $(VENV)/.torch
	$(BIN)/python -m pytest -s tests/stories/rehearsal/test_templates.py tests/stories/rehearsal/test_mixed_site.py tests/stories/rehearsal/test_campus.py --templates

test-training: host-test develop $(VENV)/.torch
	$(BIN)/python -m pytest -s tests/stories/training/test_faults.py tests/stories/jobs/test_frameworks.py --training

# Every claim that one NVIDIA GPU can settle, on a machine that has one: 8 minutes. It needs a Python with PyTorch for CUDA,
# and nothing of this repository is installed. GPU_REPORT="--quick" takes 3 minutes.
GPU_PYTHON ?= python3
GPU_OUT ?= gpu-report
GPU_REPORT ?=
test-gpu:
	$(GPU_PYTHON) -m tools.gpu_report --out $(GPU_OUT) $(GPU_REPORT)

# 10,000 files instead of 500 for `validate`; another SEED, other files.
SEED ?= 2
fuzz: develop
	$(BIN)/python -m pytest -s tests/fuzz --fuzz-inputs 10000 --fuzz-seed $(SEED)

# Each shipped role is broken in each of its lines: golden files must show every break. Minutes.
break-roles: develop
	$(BIN)/python tools/break_roles.py

# The pages of docs/ that are generated. The last part of docs/smoke-tests.md is `python -m tools.blueprint_reference smoke-test`.
references: develop
	$(BIN)/python -m tools.blueprint_reference > docs/blueprint.md
	$(BIN)/python -m tools.blueprint_reference inventory > docs/inventory.md
	$(BIN)/python -m tools.role_reference > docs/roles.md
	$(BIN)/python -m tools.disruption_table > docs/disruption.md
	$(BIN)/python -m tools.import_figure > docs/packages.svg

CHECK = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python tools/house.py && $(BIN)/lint-imports && $(BIN)/mypy && $(BIN)/python -m tools.check_schemas
check: develop
	$(CHECK)

# Lowers the ceilings of tools/house.yaml to what the tree has now. `make check` fails where they can be lowered, or are exceeded.
house: develop
	$(BIN)/python tools/house.py --tighten

install: host $(VENV)/.installed

# What tests and linters need, too.
develop: install $(VENV)/.developed

# $(call have,PACKAGES,WHAT FOR). Services of packages that are only now installed are not started: a rehearsal runs its own package proxy.
define have
@missing=""; for package in $(1); do \
  dpkg-query -Wf '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; done; \
if [ -n "$$missing" ]; then echo "installing on this machine, $(2):$$missing"; \
  apt-get update -q && \
  { systemctl mask apt-cacher-ng.service prometheus.service >/dev/null 2>&1; \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; }; fi
endef

host:
	$(call have,$(HOST_PACKAGES),for rehearsals)

# What only the tests need: pages are looked at in a real browser, and promtool judges rules of alerts.
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

# The pip that the locks were tried with comes first: the venv may have any from 22.3 on, and its setuptools builds hpcforge.
$(VENV)/.installed: pyproject.toml setup.py locks/installer.txt locks/users.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q --require-hashes -r locks/installer.txt
	$(PIP) install -q --require-hashes -r locks/users.txt
	PYTHONWARNINGS=ignore $(PIP) install -q --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.developed: $(VENV)/.installed locks/development.txt
	$(PIP) install -q --require-hashes -r locks/development.txt
	touch $@

# For the tests of smoke_tests/ on this machine: no lock has it, since builds for CPUs are not on PyPI.
$(VENV)/.torch: $(VENV)/.developed tests/support/install_torch.py hpcforge/catalog/frameworks.yaml
	$(BIN)/python tests/support/install_torch.py
	touch $@

# The newest versions that pyproject.toml allows, for all platforms and all Pythons from 3.11 on.
COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" $(VENV)/lock/bin/uv pip compile -q --upgrade --universal --python-version 3.11 \
  --fork-strategy fewest --generate-hashes --no-emit-index-url --no-emit-find-links
lock:
	test -x $(VENV)/lock/bin/python || $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install -q $(UV)
	printf 'pip\nsetuptools\n' | $(COMPILE) - -o locks/installer.txt
	$(COMPILE) pyproject.toml -o locks/users.txt
	$(COMPILE) pyproject.toml --extra dev -c locks/users.txt -o locks/development.txt

# What things cost: hours on an idle machine, as root. Compare ratios within one run.
bench: install
	$(BIN)/python benchmarks/converge.py
	$(BIN)/python benchmarks/ends.py
	$(BIN)/python benchmarks/ansible.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/walk.py
	$(BIN)/python -m benchmarks.simulate_isolation --steps

# From power to ssh, medians of three rounds on QEMU machines: 20 minutes on a quiet machine.
bench-metal: host-vm-test develop
	$(call have,$(METAL_TEST_PACKAGES),for machines that boot from the network)
	$(BIN)/python benchmarks/metal.py

# A guard for speed, 3 minutes as root: today beside the last line of benchmarks/history.csv. Fails where a figure is worse
# by a tenth. `make bench-record` appends today's line, too.
bench-quick: develop
	$(BIN)/python benchmarks/quick.py
bench-record: develop
	$(BIN)/python benchmarks/quick.py --record

# What changed by a tenth between the last two lines of benchmarks/history.csv, or COMMITS="BEFORE AFTER".
COMMITS ?=
bench-quick-compare: develop
	$(BIN)/python benchmarks/quick.py --compare $(COMMITS)

# Isolation of bad parts, on simulated clusters with planted faults: hours. Writes docs/isolation-simulated.md.
simulate-isolation: install
	$(BIN)/python -m benchmarks.simulate_isolation --coverage
	$(BIN)/python -m benchmarks.simulate_isolation --page | tee docs/isolation-simulated.md
	$(BIN)/python -m benchmarks.simulate_isolation --mixtures 10000
	$(BIN)/python -m benchmarks.simulate_isolation --nodes 8 --healthy 10000

# The pictures of README.md: a rehearsal of its blueprint, and the page of a design in chromium. Minutes, as root.
pictures: host-test install
	$(BIN)/python tools/pictures.py
