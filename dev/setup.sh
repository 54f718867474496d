#!/usr/bin/env bash
# Finds what the build needs and installs what is missing:
#
#   dev/setup.sh                 a C++20 compiler, make, OpenMP, nlohmann/json, PCRE2, utf8proc
#   dev/setup.sh --config FILE   the same, and writes the result to FILE for the Makefile
#   dev/setup.sh test            the same, and Catch2
#   dev/setup.sh python          the same without Catch2, and Python with venv (PyTorch reference, reports)
#   dev/setup.sh layers          (or kernels) what layers/ and its tests need: neither PCRE2 nor utf8proc
#   dev/setup.sh mpi             the same as the first, and MPI, for `make MPI=1`
#   dev/setup.sh arm             g++ for 64-bit ARM, and an emulator that runs what it compiles
#   dev/setup.sh playground      clang with WebAssembly's libraries, for `make playground`
#   dev/setup.sh report          Python and the system's plotly, pandas, matplotlib and scipy, if pip has no network;
#                                --config FILE writes the name of the Python that has them
#
# The script tests each requirement by compiling a few lines that use it. It installs missing ones with the system's
# package manager (apt, dnf, pacman, zypper, brew); at a terminal it asks first. If that is impossible, it copies
# headers of fixed releases into build/include: from GitHub, checked by SHA-256, or from Debian's packages, checked by
# apt.
#
# CXX names the compiler, MPICXX MPI's compiler (mpicxx), MARCH the processor, HEADER_URL a mirror of
# https://github.com. EMULATOR runs what a cross compiler made ('qemu-aarch64 -L /usr/aarch64-linux-gnu'); without one,
# it is enough that the lines compile and link.
set -u
cd "$(dirname "$0")/.." || exit 1

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

needs="compiler make openmp json pcre2 utf8proc" named=${CXX:-} CXX='' march=${MARCH:-native} config=
emulator=${EMULATOR:-} mpicxx=${MPICXX:-mpicxx}
while [ $# -gt 0 ]; do
  case $1 in
    test) needs="$needs catch2" ;;
    python) needs="$needs python" ;;
    mpi) needs="$needs mpi" ;;
    layers | kernels) needs="compiler make openmp json" ;;
    arm)
      needs="compiler openmp json catch2 emulator" named=${named:-aarch64-linux-gnu-g++}
      emulator=${emulator:-qemu-aarch64 -L /usr/aarch64-linux-gnu} ;;
    playground) needs="compiler json wasm" ;;
    report) needs="python plots" ;;
    --config) config=${2:?--config needs a file}; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "dev/${0##*/}"; exit 0 ;;
    *) die "unknown argument '$1' (try --help)" ;;
  esac
  shift
done

# A stamp file means that everything was found before. `make clean` removes it.
stamp=build/setup/$(printf %s "${named:-any} $needs" | tr -c 'A-Za-z0-9+.-' _)
[ -z "$config" ] && [ "$stamp" -nt "dev/${0##*/}" ] && exit 0

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# ---- What is installed ---------------------------------------------------------------------------

# builds FLAGS...: succeeds if the program on standard input compiles, links and runs. Exit code 126 is the shell's for
# a program of another processor.
builds() {
  cat >"$scratch/try.cpp"
  $CXX -std=c++20 -isystem build/include "$scratch/try.cpp" -o "$scratch/try" "$@" >"$scratch/log" 2>&1 || return
  $emulator "$scratch/try" >"$scratch/log" 2>&1 || [ "$?:$emulator" = 126: ]
}
parses() { $CXX -std=c++20 -isystem build/include -fsyntax-only -x c++ - >"$scratch/log" 2>&1; }

compiler_works() {
  have "${CXX%% *}" && builds <<'END'
#if defined(__clang__) ? __clang_major__ < 14 : __GNUC__ < 12
#error "too old: g++ 12 or clang 14 is needed"
#endif
#include <bit>
#include <concepts>
#include <numbers>
#include <span>
#include <string>
template <std::floating_point T> T twice(T x) { return x + x; }
struct Size { int rows = 1, columns = 1; };
typedef float float8 __attribute__((vector_size(32)));
int main() {
  Size size{.columns = 2};
  float8 v{};
  std::string text = std::to_string(twice(std::numbers::pi)) + std::to_string(v[0]);
  return std::span<char>(text).empty() || std::popcount(3u) != size.columns;
}
END
}

# Sets CXX to the compiler that was named, or to the first that works. An old g++ does not hide a newer clang++.
has_compiler() {
  if [ -n "$named" ]; then
    CXX=$named
    compiler_works || { CXX=; return 1; }
    return 0
  fi
  for CXX in g++ clang++ g++-15 g++-14 g++-13 g++-12 clang++-20 clang++-19 clang++-18 clang++-17 \
    clang++-16 clang++-15 clang++-14; do
    compiler_works && return
  done
  CXX=
  return 1
}

has_make() { have make || have gmake; }

has_emulator() { have "${emulator%% *}"; }

# OpenMP is present if a parallel program links and runs. A compiler may know the option and lack the library.
openmp='' openmp_libs=''
openmp_works() {
  # shellcheck disable=SC2086
  builds $1 $2 <<'END' && openmp=$1 openmp_libs=$2
#include <omp.h>
int main() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  return threads < 1 || threads > omp_get_max_threads();
}
END
}
has_openmp() {
  openmp_works -fopenmp '' && return
  local keg  # Apple's clang
  keg=$(brew --prefix libomp 2>/dev/null) &&
    openmp_works "-Xpreprocessor -fopenmp -I$keg/include" "-L$keg/lib -lomp"
}

has_json() { echo '#include <nlohmann/json.hpp>' | parses; }

# brew_header PACKAGE HEADER: copies a header, because compilers do not search brew's. Sets keg.
keg=''
brew_header() {
  keg=$(brew --prefix "$1" 2>/dev/null) && [ -e "$keg/include/$2" ] || return 1
  mkdir -p build/include && cp "$keg/include/$2" build/include/
}

pcre2_libs=''
pcre2_works() {
  builds "$@" <<'END' && pcre2_libs=$*
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
int main() {
  int error;
  PCRE2_SIZE at;
  return !pcre2_compile(reinterpret_cast<PCRE2_SPTR>("\\p{L}"), 5, PCRE2_UTF, &error, &at, nullptr);
}
END
}
has_pcre2() {
  pcre2_works -lpcre2-8 && return
  pcre2_works -Lbuild/lib -lpcre2-8 && return
  brew_header pcre2 pcre2.h && pcre2_works "-L$keg/lib" -lpcre2-8
}

# The static library comes first, so that the program runs elsewhere, too.
utf8proc_libs=''
utf8proc_works() {
  builds "$@" <<'END' && utf8proc_libs=$*
#include <utf8proc.h>
int main() { return utf8proc_category('a') != UTF8PROC_CATEGORY_LL; }
END
}
has_utf8proc() {
  utf8proc_works -l:libutf8proc.a && return
  utf8proc_works -lutf8proc && return
  utf8proc_works -Lbuild/lib -lutf8proc && return
  brew_header utf8proc utf8proc.h && utf8proc_works "-L$keg/lib" -lutf8proc
}

# MPI's compilers call another compiler with flags, which `-show` prints.
mpi_flags=''
has_mpi() {
  have "$mpicxx" || return
  local flags
  flags="-DTRAIN_GPT_MPI -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $("$mpicxx" -show 2>/dev/null | cut -d ' ' -f 2-)"
  # shellcheck disable=SC2086
  builds $flags <<'END' && mpi_flags=$flags
#include <mpi.h>
int main() { return MPI_VERSION < 3 || MPI_Wtime == nullptr; }
END
}

# Catch2 2 is a header. Catch2 3 must link, too.
has_catch2() {
  printf '#include <catch2/catch.hpp>\n' | parses ||
    printf '#include <catch2/catch_session.hpp>\nint main() { Catch::Session session; }\n' | builds -lCatch2
}

# python_works PYTHON ', MODULE...': is it new enough, with these modules?
python_works() {
  "$1" -c "import sys, venv, ensurepip$2; sys.exit(sys.version_info < (3, 10))" >/dev/null 2>&1
}
has_python() { python_works python3 ''; }

# The system's own Python has the system's packages. PATH may name another Python first.
plots_python=''
has_plots() {
  for plots_python in python3 /usr/bin/python3; do
    python_works $plots_python ', plotly, pandas, matplotlib, scipy' && return
  done
  plots_python=''
  return 1
}

# A clang whose linker and libraries make WebAssembly.
wasm_cxx=''
wasm_works() {
  have "$1" && "$1" --target=wasm32-wasi -msimd128 -std=c++20 -mexec-model=reactor -x c++ - \
    -o "$scratch/try.wasm" >"$scratch/log" 2>&1 <<'END'
#include <charconv>
#include <cmath>
#include <string>
typedef float float4 __attribute__((vector_size(16)));
__attribute__((export_name("first"))) float first(float x) {
  float4 v{};
  v += std::exp(x);
  return v[0] + static_cast<float>(std::to_string(x).size());
}
END
}
has_wasm() {
  for wasm_cxx in clang++-19 clang++-20 clang++-21 clang++; do wasm_works $wasm_cxx && return; done
  wasm_cxx=''
  return 1
}

missing=
look() {
  missing=
  local need
  for need in $needs; do
    case $CXX:$need in
      # These cannot be tested without a compiler.
      :openmp | :json | :pcre2 | :utf8proc | :catch2 | :mpi) missing="$missing $need" ;;
      *) "has_$need" || missing="$missing $need" ;;
    esac
  done
  missing=${missing# }
}

# ---- The system's packages -----------------------------------------------------------------------

manager=
for manager in apt-get dnf pacman zypper brew none; do have "$manager" && break; done

# package REQUIREMENT: the name of its package. OpenMP comes with gcc, but not with clang.
package() {
  local version=
  case $named in *++-[0-9]*) version=-${named##*-} ;; esac  # CXX=clang++-16 asks for clang-16
  case $manager:$1:$named in
    apt-get:compiler:aarch64-linux-gnu-g++) echo g++-aarch64-linux-gnu; return ;;
    apt-get:compiler:clang*--target=aarch64*) echo "clang$version g++-aarch64-linux-gnu"; return ;;
    *:openmp:*--target=*) return ;;
    apt-get:emulator:*) echo qemu-user; return ;;
  esac
  case $manager:$1 in
    apt-get:compiler) case $named in *clang*) echo "clang$version" ;; *) echo "g++$version" ;; esac ;;
    apt-get:wasm) echo clang-19 lld-19 libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32 wasi-libc ;;
    apt-get:openmp) case ${CXX:-$named} in *clang*) echo "libomp$version-dev" ;; *) : ;; esac ;;
    apt-get:mpi) case $mpicxx in *mpich*) echo libmpich-dev ;; *) echo "libopenmpi-dev openmpi-bin" ;; esac ;;
    dnf:mpi) echo openmpi-devel ;;
    pacman:mpi) echo openmpi ;;
    zypper:mpi) echo openmpi-devel ;;
    brew:mpi) echo open-mpi ;;
    apt-get:json) echo nlohmann-json3-dev ;;
    apt-get:pcre2) echo libpcre2-dev ;;
    apt-get:utf8proc) echo libutf8proc-dev ;;
    apt-get:python) echo python3-venv ;;
    dnf:compiler) case $named in *clang*) echo clang ;; *) echo gcc-c++ ;; esac ;;
    dnf:openmp) case ${CXX:-$named} in *clang*) echo libomp-devel ;; *) : ;; esac ;;
    dnf:json) echo json-devel ;;
    dnf:pcre2 | zypper:pcre2) echo pcre2-devel ;;
    dnf:utf8proc | zypper:utf8proc) echo utf8proc-devel ;;
    dnf:catch2) echo catch-devel ;;
    pacman:compiler) case $named in *clang*) echo clang ;; *) echo gcc ;; esac ;;
    pacman:openmp) case ${CXX:-$named} in *clang*) echo openmp ;; *) : ;; esac ;;
    pacman:json) echo nlohmann-json ;;
    pacman:utf8proc) echo libutf8proc ;;
    pacman:python) echo python ;;
    zypper:compiler) case $named in *clang*) echo clang ;; *) echo gcc-c++ ;; esac ;;
    zypper:openmp) case ${CXX:-$named} in *clang*) echo libomp-devel ;; *) : ;; esac ;;
    zypper:json) echo nlohmann_json-devel ;;
    zypper:catch2) echo Catch2-devel ;;
    brew:compiler) case $named in *clang*) echo llvm ;; *) echo gcc ;; esac ;;
    brew:openmp) echo libomp ;;
    brew:json) echo nlohmann-json ;;
    *:wasm) : ;;  # no other system was tried
    brew:plots) : ;;  # only pip has them
    pacman:plots) echo python-plotly python-pandas python-matplotlib python-scipy ;;
    apt-get:plots) echo python3-venv python3-plotly python3-pandas python3-matplotlib python3-scipy ;;
    *:plots) echo python3-plotly python3-pandas python3-matplotlib python3-scipy ;;
    *:python) echo python3 ;;
    *) echo "$1" ;;
  esac
}

wanted_packages() {
  local need
  for need in $missing; do package "$need"; done | tr '\n' ' ' | sed 's/ *$//'
}

install_line() {  # install_line PACKAGE...: prints the command, without sudo
  case $manager in
    apt-get) echo "apt-get install -y --no-install-recommends $*" ;;
    dnf) echo "dnf install -y $*" ;;
    pacman) echo "pacman -S --needed --noconfirm $*" ;;
    zypper) echo "zypper --non-interactive install $*" ;;
    brew) echo "brew install $*" ;;
  esac
}

have_lists() { ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; }
as_root() { $sudo env DEBIAN_FRONTEND=noninteractive "$@"; }

refresh() {
  case $manager in
    apt-get) say "apt-get update"; as_root apt-get update -qq ;;
    pacman) as_root pacman -Sy ;;
    *) false ;;
  esac
}

# May fail: no root, no network, or the user declines. The caller looks again for what is missing.
install_packages() {
  local packages need line answer sudo='' terminal=no
  packages=$(wanted_packages)
  [ -n "$packages" ] || return 1
  line=$(install_line $packages)
  [ -t 0 ] && [ -t 2 ] && terminal=yes

  if [ "$manager" != brew ] && [ "$(id -u)" != 0 ]; then
    if ! have sudo; then
      return 1
    elif [ $terminal = yes ]; then
      sudo=sudo  # the user can type the password
    elif sudo -n true 2>/dev/null; then
      sudo="sudo -n"
    else
      return 1
    fi
  fi

  say "${sudo:+$sudo }$line"
  if [ $terminal = yes ]; then
    printf 'setup: run this? [Y/n] ' >&2
    read -r answer || answer=n
    case $answer in n* | N*) return 1 ;; esac
  fi

  local updated=no
  if [ "$manager" = apt-get ] && ! have_lists; then refresh; updated=yes; fi
  as_root $line </dev/null >&2 && return
  [ $updated = no ] && refresh && as_root $line </dev/null >&2 && return
  say "one by one, in case one of them does not exist here:"
  for need in $packages; do as_root $(install_line "$need") </dev/null >&2; done
}

# ---- Headers without root ------------------------------------------------------------------------

sha256() { if have sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1; }

download() {  # download URL FILE
  if have curl; then
    curl -fsSL --connect-timeout 10 --max-time 120 -o "$2" "$1"
  elif have wget; then
    wget -q --timeout=20 --tries=2 -O "$2" "$1"
  elif have python3; then
    python3 -c 'import sys, urllib.request as u
open(sys.argv[2], "wb").write(u.urlopen(sys.argv[1], None, 20).read())' "$1" "$2"
  else
    echo "neither curl nor wget nor python3 is here" >&2
    return 1
  fi 2>"$scratch/log"
}

HEADER_URL=${HEADER_URL:-https://github.com}

fetch_header() {  # fetch_header PATH-UNDER-GITHUB FILE SHA-256
  local url=$HEADER_URL/$1 file=build/include/$2 sum
  say "fetching $url into $file"
  download "$url" "$scratch/header" || { say "  no: $(tail -n 1 "$scratch/log")"; return 1; }
  sum=$(sha256 "$scratch/header")
  [ "$sum" = "$3" ] || { say "  refused: its SHA-256 is $sum, not $3"; return 1; }
  mkdir -p "${file%/*}" && cp "$scratch/header" "$file"
}
# The checksums are of the files attached to the releases.
fetch() {
  case $1 in
    json) fetch_header nlohmann/json/releases/download/v3.11.3/json.hpp nlohmann/json.hpp \
      9bea4c8066ef4a1c206b2be5a36302f8926f7fdc6087af5d20b417d0cf103ea6 &&
      echo '#include <nlohmann/json.hpp>' >build/include/nlohmann/json_fwd.hpp ;;  # a part of the one header
    catch2) fetch_header catchorg/Catch2/releases/download/v2.13.10/catch.hpp catch2/catch.hpp \
      3725c0f0a75f376a5005dde31ead0feb8f7da7507644c201b814443de8355170 ;;
    *) false ;;
  esac
}

# Copies the headers and static libraries out of a package, which apt downloads and checks without root. Installs
# nothing.
unpack_debian() {  # unpack_debian PACKAGE
  local own="$PWD/build/apt" options=''
  if ! have_lists; then
    mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
    options="-o Dir::State::Lists=$own/lists -o Dir::Cache=$own/cache -o APT::Sandbox::User=$(id -un)"
    [ -n "$(ls "$own"/lists/*_Packages* 2>/dev/null)" ] || apt-get -qq $options update >"$scratch/log" 2>&1
  fi
  say "taking what is needed out of Debian's package $1 into build/"
  mkdir -p "$scratch/deb"
  (cd "$scratch" && apt-get -qq $options download "$1" >log 2>&1 && dpkg -x "$1"_*.deb deb) ||
    { say "  no: $(tail -n 1 "$scratch/log")"; return 1; }
  mkdir -p build/include build/lib && cp -R "$scratch"/deb/usr/include/* build/include/
  find "$scratch/deb" '(' -name libpcre2-8.a -o -name libutf8proc.a ')' -exec cp {} build/lib/ ';'
}

fetch_headers() {
  local need
  for need in $missing; do
    case $need in
      json | pcre2 | utf8proc | catch2)
        fetch "$need" || { [ "$manager" = apt-get ] && have dpkg && unpack_debian "$(package "$need")"; } ;;
    esac
  done
  rm -rf build/apt
}

# ---- Look, install, look again -------------------------------------------------------------------

look
if [ -n "$missing" ]; then
  say "missing: $missing"
  case $missing:$named in
    compiler*:*g++* | compiler*:*clang* | compiler*:) ;;
    compiler*) die "CXX=$named is no C++20 compiler that works (g++ 12 or newer, clang++ 14 or newer)" ;;
  esac
  if [ "$manager" != none ]; then install_packages; look; fi
  if [ -n "$CXX" ] && [ -n "$missing" ]; then fetch_headers; look; fi
fi

# OpenMP is optional. Without it everything is slow, and the Makefile says so at every build.
fatal=$(printf '%s\n' $missing | grep -v -x openmp | tr '\n' ' ')
if [ -n "$missing" ]; then
  packages=$(wanted_packages)
  say "still missing: $missing"
  case $missing in *compiler*)
    say "  wanted: g++ 12 or newer, or clang++ 14 or newer${named:+ (CXX=$named does not work)}" ;;
  esac
  if [ "$missing:$packages" = wasm: ]; then
    say "  wanted: clang++ 19 or newer with lld, and libc, libc++ and compiler-rt for wasm32-wasi"
  elif [ "$missing:$packages" = plots: ]; then
    say "  this system has no packages of plotly, pandas, matplotlib and scipy: install them with pip"
  elif [ -z "$packages" ]; then
    say "  it should come with $CXX, whose installation is incomplete"
  elif [ "$manager" = none ]; then
    say "  no known package manager: install it by hand"
  elif [ "$(id -u)" = 0 ] || [ "$manager" = brew ]; then
    say "  try it by hand: $(install_line $packages)"
  else
    say "  ask the administrator of this machine to run: $(install_line $packages)"
  fi
  case $missing in compiler*) ;; *json* | *catch2*)
    say "  or copy the single-header releases to build/include/nlohmann/json.hpp (3.11.3)"
    say "  and build/include/catch2/catch.hpp (2.13.10)" ;;
  esac
  [ -z "$fatal" ] || exit 1
else
  mkdir -p build/setup && : >"$stamp"
fi

# ---- The Makefile's configuration ----------------------------------------------------------------

[ -n "$config" ] || exit 0
mkdir -p "${config%/*}"
if [ -n "$plots_python" ]; then
  echo "$plots_python" >"$config"
  exit 0
fi
if [ -n "$wasm_cxx" ]; then  # WebAssembly's compiler does not look where the JSON header is
  include=${config%/*}/include
  mkdir -p "$include"
  header=$(echo '#include <nlohmann/json.hpp>' | $CXX -isystem build/include -M -E -x c++ - |
    tr ' \\' '\n\n' | grep '/nlohmann/json.hpp$') || die "nlohmann/json.hpp is not found"
  ln -sfn "$(cd "${header%/*}" && pwd)" "$include/nlohmann"
  printf 'WASM_CXX := %s\n' "$wasm_cxx" >"$config"
  exit 0
fi
for arch in "-march=$march" "-mcpu=$march" ''; do
  echo 'int main() {}' | builds $arch && break
done
[ -n "$arch" ] || [ "$march" = native ] || die "$CXX does not know MARCH=$march"
printf '%s := %s\n' CXX "$CXX" ARCH "$arch" OPENMP "$openmp" OPENMP_LIBS "$openmp_libs" \
  PCRE2_LIBS "$pcre2_libs" UTF8PROC_LIBS "$utf8proc_libs" MPI_FLAGS "$mpi_flags" >"$scratch/config"
cp "$scratch/config" "$config"
