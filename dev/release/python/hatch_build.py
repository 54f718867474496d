"""The version and the tag of the wheel. Hatchling calls this."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The programs are linked statically, so they need no version of glibc or musl. They need Linux 3.2, which every system
# with glibc 2.17 or musl 1.1 has.
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64")


def version():
    return pep440(os.environ["VERSION"])


def pep440(version):
    """A commit between releases, 0.1.0+ab12cd, comes before the release 0.1.0. The g keeps a commit's leading zeros."""
    return version.replace("+", ".dev0+g")


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + ".".join(PLATFORMS)
