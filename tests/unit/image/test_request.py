"""What an image is asked to be."""

from __future__ import annotations

from pathlib import Path

from hpcforge.cluster import load
from hpcforge.image.request import ImageRequest, LeftPackage, request_of, with_kernel, with_packages
from hpcforge.kinds.pins import Pin
from hpcforge.plan.desired import DesiredRole, Unit
from hpcforge.run.site import image_request

REPOSITORY = Path(__file__).parents[3]


def test_it_has_what_any_node_wants_once_and_in_order() -> None:
    nodes = {
        "head": (DesiredRole("a", packages=("slurmctld", "munge"), units=(Unit("slurmctld.service", ()),)),),
        "w01": (DesiredRole("b", packages=("munge", "chrony"), units=(Unit("chrony.service", ()),)),),
    }
    request = request_of("debian", "12", nodes)
    assert request.packages == ("chrony", "munge", "slurmctld")
    assert request.units == ("chrony.service", "slurmctld.service")
    assert request.left == ()


def test_what_makes_a_state_or_has_a_source_of_its_own_is_left_and_said() -> None:
    pin = Pin(name="vendor", packages=("driver",), pin="origin example.org", priority=900)
    nodes = {
        "head": (
            DesiredRole("database", packages=("mariadb-server",)),
            DesiredRole("gpu", packages=("driver",), resources=(pin,)),
            DesiredRole("other", packages=("driver", "munge")),
        )
    }
    request = request_of("debian", "12", nodes)
    assert request.packages == ("munge",)
    assert request.left == (
        LeftPackage("driver", "role gpu chooses its source"),
        LeftPackage("mariadb-server", "its installation makes a state of its own"),
    )


def test_the_shipped_rehearsal_asks_for_what_its_roles_install() -> None:
    request = image_request(load(REPOSITORY / "blueprints" / "rehearsal.yaml"))
    assert {"munge", "slurmctld", "slurmd", "chrony", "dnsmasq", "lighttpd"} <= set(request.packages)
    assert {"slurmctld.service", "slurmd.service", "dnsmasq.service"} <= set(request.units)


def test_what_an_image_needs_is_in_it_also_where_a_role_leaves_it() -> None:
    left = tuple(LeftPackage(name, "role gpu chooses its source") for name in ("driver", "linux-headers-a", "mdadm"))
    request = ImageRequest("debian", "12", ("munge",), (), left)
    assert with_packages(request, ["mdadm"]) == ImageRequest("debian", "12", ("mdadm", "munge"), (), left[:2])
    with_headers = ("linux-headers-a", "linux-image-a", "munge")
    assert with_kernel(request, "linux-image-a") == ImageRequest("debian", "12", with_headers, (), (left[0], left[2]))
    assert with_kernel(request, "linux-image-b").packages == ("linux-image-b", "munge")
