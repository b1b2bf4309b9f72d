"""Empty stand-ins for the libraries of CUDA, so that a torch built for CUDA can be imported for the CPU alone.

PyPI has torch for Linux only as a build for CUDA; what it is linked to is several gigabytes more. To import it, the
loader needs a library of each name, with each symbol that torch's own libraries name, under the version they name. A
C file a library, compiled by ``gcc``, is enough: every function returns 100, which is CUDA's "no device". They are put
beside torch's own libraries, where these look last (their RPATH ends with ``$ORIGIN``), so no variable has to be set.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# Those of every Linux: glibc's, gcc's and the loader itself.
OF_THE_SYSTEM = re.compile(r"(lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so|ld-linux)")
# Names that CUDA's libraries give without a version. Anything else without one is Python's or the C++ library's.
OF_CUDA = re.compile(r"_*(cu|nccl|nv)", re.IGNORECASE)


@dataclass
class Linkage:
    """What a folder of libraries asks of the loader, and what it has itself."""

    #: Names of libraries that they are linked to.
    needed: set[str] = field(default_factory=set)
    #: The library to which a symbol's version belongs.
    library_of_version: dict[str, str] = field(default_factory=dict)
    #: What they define.
    defined: set[str] = field(default_factory=set)
    #: What they use of others, as ``name`` or ``name@VERSION``.
    used: set[str] = field(default_factory=set)


def write_stub_libraries(folder: Path) -> list[Path]:
    """Compile into ``folder``, which holds torch's libraries, whatever they are linked to and the system has not."""
    libraries = sorted(folder.glob("*.so*"))
    linkage = read_linkage(libraries)
    absent = sorted(
        name for name in linkage.needed - {path.name for path in libraries} if not OF_THE_SYSTEM.match(name)
    )
    symbols = share_out(linkage, absent)
    return [compile_stub(folder / name, symbols[name]) for name in absent]


def read_linkage(libraries: Iterable[Path]) -> Linkage:
    """By ``readelf`` and ``nm`` of binutils."""
    read = Linkage()
    for library in libraries:
        read.needed.update(re.findall(r"\(NEEDED\).*\[(.+?)\]", _output_of("readelf", "--dynamic", "--wide", library)))
        read.library_of_version.update(parse_versions(_output_of("readelf", "--version-info", "--wide", library)))
        for line in _output_of("nm", "--dynamic", "--with-symbol-versions", library).splitlines():
            *_, kind, symbol = line.split()  # [address] kind name[@VERSION]
            if kind == "U":
                read.used.add(symbol)
            elif kind not in "wv":  # a weak one that is used may stay away
                read.defined.add(symbol.partition("@")[0])
    return read


def parse_versions(printed: str) -> dict[str, str]:
    """Which library each version belongs to, of what ``readelf --version-info`` prints.

    >>> parse_versions('''Version needs section '.gnu.version_r' contains 1 entry:
    ...   000000: Version: 1  File: libcufft.so.12  Cnt: 1
    ...   0x0010:   Name: CUFFT_12  Flags: none  Version: 16''')
    {'CUFFT_12': 'libcufft.so.12'}
    """
    found, library = {}, ""
    for line in printed.partition("Version needs section")[2].splitlines():
        if file := re.search(r"File: (\S+)", line):
            library = file[1]
        elif version := re.search(r"Name: (\S+)", line):
            found[version[1]] = library
    return found


def share_out(linkage: Linkage, absent: list[str]) -> dict[str, dict[str, list[str]]]:
    """What each absent library has to define: its symbols by their version, "" for none.

    The loader looks for a symbol without a version in every library, so those are all put into the first one.

    >>> linkage = Linkage(library_of_version={"V1": "liba.so"}, used={"cuOne@V1", "ncclTwo", "PyLong_Type"})
    >>> share_out(linkage, ["liba.so", "libb.so"])
    {'liba.so': {'V1': ['cuOne'], '': ['ncclTwo']}, 'libb.so': {}}
    """
    shares: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in absent}
    for symbol in sorted(linkage.used):
        name, _, version = symbol.partition("@")
        if version:
            library = linkage.library_of_version.get(version)
            if library in shares:
                shares[library][version].append(name)
        elif absent and name not in linkage.defined and OF_CUDA.match(name):
            shares[absent[0]][""].append(name)
    return {name: dict(share) for name, share in shares.items()}


def compile_stub(library: Path, symbols: dict[str, list[str]]) -> Path:
    """One shared library with these functions, by version."""
    functions = [name for names in symbols.values() for name in names]
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stub.c"), Path(folder, "versions.map")
        lines = [f"long {name}(void) {{ return 100; }}" for name in dict.fromkeys(functions)]
        source.write_text("\n".join(lines or ["long gradwright_stub(void) { return 100; }"]))
        words = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library.name}"]
        versions = {version: names for version, names in symbols.items() if version}
        if versions:
            script.write_text("".join(f"{v} {{ global: {'; '.join(names)}; }};\n" for v, names in versions.items()))
            words.append(f"-Wl,--version-script={script}")
        subprocess.run([*words, "-o", library, source], check=True)
    return library


def _output_of(*words: str | Path) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
