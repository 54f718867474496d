"""The version and the tag of the wheel. Hatchling calls this."""

import os
import re

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The programs are linked statically, so they need no version of glibc or musl. They need Linux 3.2, which every system
# with glibc 2.17 or musl 1.1 has.
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64")


def version():
    """The version of PEP 440 that `make wheel` is for: DESCRIBED is what git describes the commit as, NEXT the release
    that comes next."""
    return pep440(os.environ["DESCRIBED"], os.environ["NEXT"])


def pep440(described, following):
    """v0.1.0 → 0.1.0, v0.1.0-5-gab12cd → 0.1.0.post5+gab12cd. A commit before the first tag, ab12cd →
    0.1.0.dev0+gab12cd if 0.1.0 comes next."""
    tag = re.fullmatch(r"v(\d[\d.]*)(?:-(\d+)-(g[0-9a-f]+))?", described)
    if not tag:
        return f"{following}.dev0+g{described}"
    release, commits, commit = tag.groups()
    return f"{release}.post{commits}+{commit}" if commits else release


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + ".".join(PLATFORMS)
