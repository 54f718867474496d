# train_gpt. `make` builds, `make train` trains, `make test` checks; `make help` lists the rest.
#
#   CXX=clang++          another compiler              MARCH=x86-64-v3     for another processor
#   DATA=my.txt          text to train on              ARGS='--steps 9'    options of the command that is run
#   CXXFLAGS, LDFLAGS    added to the command lines    V=1                 show the command lines
#   MPI=1                trains on many machines       EMULATOR             runs what a cross compiler made

# Make 3.82 introduced variables that are private to a rule. macOS still has 3.81.
ifneq (,$(filter 3.7% 3.80% 3.81%,$(MAKE_VERSION)))
  $(error GNU make 3.82 or newer is needed, and this is $(MAKE_VERSION): on macOS `brew install make`, then call `gmake`)
endif

CPUS := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
ifeq (0,$(MAKELEVEL))
  MAKEFLAGS += -j$(CPUS)  # unless the command line has its own
endif

ifneq (,$(word 2,$(MAKECMDGOALS)))

# Several goals run one after the other, each with its own parallel build.
.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)
$(MAKECMDGOALS):
	@$(MAKE) --no-print-directory $@

else

MARCH ?= native
TRAIN_DATA := $(or $(DATA),build/tales.txt)
DATA ?= build/stories.txt

REPORTS := report watch tensorboard pictures test-report
BOOK := book test-book
PRACTICE := exercise check-exercise
PLAYGROUND := playground test-scenes test-playground build/playground/% \
  build/playground.html
ARM := aarch64-linux-gnu
EXCHANGES := check-formats check-gguf check-tokenizers
.PHONY: all train stories test tests asan test-elsewhere test-arm fuzz mutants bench ladders compare study pages \
  $(REPORTS) $(BOOK) playground test-scenes test-playground install uninstall dist \
  $(PRACTICE) reference reference-huggingface check-markdown check-pages $(EXCHANGES) curves \
  venv clean help FORCE
.DELETE_ON_ERROR:

all: build/train_gpt  ## build build/train_gpt (the default)

# ---- What this machine has: dev/setup.sh finds it, or installs it, and writes it down ------------
# Goals that compile nothing here need no configuration.

NAMED_CXX := $(if $(filter default undefined,$(origin CXX)),,$(CXX))
NO_COMPILER := test-arm venv .venv/% build/oldest/% pages $(REPORTS) $(BOOK) $(PRACTICE) $(PLAYGROUND) \
  reference reference-huggingface check-markdown check-pages uninstall dist clean help
ifneq (,$(filter-out $(NO_COMPILER),$(or $(MAKECMDGOALS),all)))

KEY := $(subst /,_,$(subst $() ,_,$(or $(NAMED_CXX),auto)-$(MARCH)))
MPICXX ?= mpicxx
WITH_MPI := $(if $(MPI),-$(notdir $(MPICXX)))
CONFIG := build/config-$(KEY)$(SUITE:%=-%)$(WITH_MPI).mk

# OpenMP may have been installed in the meantime.
ifndef MAKE_RESTARTS
  $(shell grep -q '^OPENMP := *$$' $(CONFIG) 2>/dev/null && rm $(CONFIG))
endif
include $(CONFIG)
$(CONFIG): dev/setup.sh
	@CXX='$(NAMED_CXX)' MARCH='$(MARCH)' EMULATOR='$(EMULATOR)' MPICXX='$(MPICXX)' \
	  dev/setup.sh $(SUITE) $(if $(MPI),mpi) --config $@

MACROS := $(shell $(CXX) $(ARCH) -dM -E -x c++ /dev/null 2>/dev/null)
has = $(filter $(1),$(MACROS))
SIMD := $(strip $(if $(call has,__AVX512F__),AVX-512 $(if $(call has,__AVX512BF16__),+ BF16), \
  $(if $(call has,__AVX2__),AVX2,$(if $(call has,__SSE2__),SSE2,$(if $(call has,__ARM_NEON),NEON,none)))))
COMPILER := $(shell $(CXX) --version 2>/dev/null | head -n 1)

ifneq (,$(shell [ $(CONFIG) -nt dev/setup.sh ] && echo known))
  $(info $(COMPILER) · OpenMP $(if $(OPENMP),yes,NO) · SIMD $(SIMD)$(if $(SANITIZE), · sanitizers))
  ifeq (,$(OPENMP))
    $(info )
    $(info *** No OpenMP: train_gpt will use ONE of $(CPUS) processors and be that much slower.)
    $(info *** `dev/setup.sh` says what to install. The build goes on without.)
    $(info )
  endif
endif
endif

# ---- Compile -------------------------------------------------------------------------------------

# The checks that are left out double the compile time. The address sanitizer sees bad pointers, too.
CHECKED := -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all \
  -fno-sanitize=null,alignment,vptr,object-size
SANITIZERS := $(if $(SANITIZE),$(CHECKED)) $(if $(FUZZ),-fsanitize=fuzzer-no-link)
OPTIMIZE := $(if $(SANITIZE),-O1,-O3) $(SANITIZERS)
# GCC bug 105651: g++ 12 warns of overlapping copies in std::string where there are none.
WARNINGS := -Wall -Wextra $(if $(call has,__clang__),,-Wno-restrict $(if $(SANITIZE),-Wno-maybe-uninitialized)) $(if $(OPENMP),,-Wno-unknown-pragmas)
EXTRA :=  # flags for single files; if CXXFLAGS is on the command line, += has no effect
# No -ffast-math: NaN, infinity and masks keep their meaning.
# g++ collects garbage less often: a tenth less time for the rooms of data/, and a fifth more memory.
THRIFT := $(if $(call has,__clang__),,--param ggc-min-heapsize=500000)
COMPILE = $(CXX) -std=c++20 $(OPTIMIZE) $(ARCH) -fno-math-errno -fno-trapping-math -ffp-contract=fast \
  $(THRIFT) $(WARNINGS) $(OPENMP) -I. -isystem build/include $(EXTRA) $(CXXFLAGS)
LINK = $(COMPILE) -o $@ $(filter %.o,$^) $(OPENMP_LIBS) $(PCRE2_LIBS) $(UTF8PROC_LIBS) $(MPI_FLAGS) $(LDFLAGS)

# Each compiler, processor and kind of build has its own objects.
OUT := build/$(KEY)$(if $(FUZZ),-fuzz,$(if $(SANITIZE),-sanitize))
LIBRARY := $(patsubst %.cpp,$(OUT)/%.o,$(sort $(wildcard layers/*/*.cpp data/*/*.cpp data/*/*/*.cpp)))

# Each of these rooms is compiled in one piece, which reads headers and instantiates templates once. From nothing,
# `time make` takes 90 s on a Zen 5, and 144 s with ROOMS_JOINED=. That compiles each file by itself, so a change of one
# file compiles less.
ROOMS_JOINED ?= $(patsubst %/,%,$(sort $(dir $(wildcard data/*/*.cpp data/*/*/*.cpp))))
JOINED := $(foreach room,$(ROOMS_JOINED),$(patsubst %.cpp,$(OUT)/%.o,$(wildcard $(room)/*.cpp)))
LIBRARY := $(ROOMS_JOINED:%=$(OUT)/%/room.o) $(filter-out $(JOINED),$(LIBRARY))
# MPI=1 compiles data/ranks once more, and nothing else.
RANKS := $(OUT)/data/ranks/$(notdir $(MPICXX)).o
LIBRARY := $(if $(MPI),$(filter-out $(OUT)/data/ranks/%,$(LIBRARY)) $(RANKS),$(LIBRARY))
PROGRAM := $(OUT)/train_gpt$(WITH_MPI)
# SUITE=layers: the tests whose results may differ between processors. They need layers/ alone.
NEED_MORE := "data/\|"\(program\|small_run\|table\|pages\|tree\|markdown\|worked\)[.]hpp"
SAME_EVERYWHERE := check config tensors textbook textbook_model
TEST_FILES_layers = test/main.cpp \
  $(filter-out $(SAME_EVERYWHERE:%=test/test_%.cpp),$(shell grep -L '$(NEED_MORE)' test/*.cpp))
# SUITE=kernels: the fast loops alone, for a processor that is emulated. [long] tests take ten seconds there, or minutes.
TEST_FILES_kernels := $(patsubst %,test/%.cpp,main check reference \
  $(addprefix test_,gemm gemm_tiles simd activation attention cross_entropy norm optimizer))
NEEDED_kernels := kernels/% config/% norm/% attention/attention.o cross_entropy/% embedding/position.o \
  feed_forward/activation.o linear/linear.o model/resolve.o residual/dropout.o \
  $(addprefix training/,optimizer.o adafactor.o muon.o run_optimizer.o)
NEEDED_layers := %
TEST_FILES_ = $(wildcard test/*.cpp)
# TESTS_BUILT: objects of another build of this tree, to link instead of compiling tests again. test_simd is compiled
# again, because the width of its vectors depends on the processor.
TESTS_BUILT ?=
TESTS := $(foreach test,$(sort $(TEST_FILES_$(SUITE):%.cpp=%)),\
  $(or $(filter %/$(test).o,$(filter-out %/test_simd.o,$(TESTS_BUILT))),$(OUT)/$(test).o))
TEST_PROGRAM := $(OUT)/tests$(SUITE:%=-%)
TESTED := $(if $(SUITE),$(filter $(NEEDED_$(SUITE):%=$(OUT)/layers/%),$(LIBRARY)),$(LIBRARY))
BENCH := $(patsubst %.cpp,$(OUT)/%.o,$(sort $(wildcard dev/bench/*.cpp)))
SAY = $(if $(V),,@echo "  $(1)";)

$(PROGRAM): $(OUT)/train_gpt.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)

# These run for a moment, and -Og compiles them in half the time of -O3. The tokenizer would encode 1.2 times slower, and
# host would measure a third of the processor's peak.
BRIEF_ROOMS := formats options run run_directory commands compare ranks text $(if $(SANITIZE),host tokenizer)
BRIEF := $(OUT)/train_gpt.o $(foreach room,$(BRIEF_ROOMS),$(filter $(OUT)/data/$(room)/%,$(LIBRARY)))
$(OUT)/data/first.hpp.gch $(BRIEF): private OPTIMIZE := -Og $(SANITIZERS)
# test_simd compiles the vector functions as layers/ does: the linker takes any of the copies that are not inlined.
EASY_TESTS := $(filter-out %/test_simd.o,$(TESTS))
$(OUT)/test/first.hpp.gch $(EASY_TESTS): private OPTIMIZE := -Og $(SANITIZERS)

# The headers that most files include are compiled once. Two tests configure Catch2 before they include it.
FIRST_layers := "layers/kernels/simd.hpp" "layers/kernels/parallel.hpp" $(patsubst %,<%>,algorithm cmath cstring \
  functional limits memory optional stdexcept string vector)
FIRST_data := <nlohmann/json.hpp> $(patsubst %,<%>,algorithm cmath cstdio filesystem fstream functional map memory \
  optional set sstream stdexcept string vector)
FIRST_test := "test/check.hpp"
LAYERS := $(filter $(OUT)/layers/%,$(LIBRARY))
$(LAYERS): $(OUT)/layers/first.hpp.gch
$(LAYERS): private EXTRA += -include $(OUT)/layers/first.hpp
$(OUT)/layers/first.hpp.gch: layers/kernels/simd.hpp layers/kernels/parallel.hpp
FIRST_TESTS := $(filter-out %/main.o %/check.o,$(filter $(OUT)/%,$(EASY_TESTS)))
$(BRIEF): $(OUT)/data/first.hpp.gch
$(BRIEF): private EXTRA += -include $(OUT)/data/first.hpp
# An exception in a CHECK ends its test case, not the CHECK alone: a tenth less to compile.
$(OUT)/test/first.hpp.gch $(TESTS): private EXTRA += -DCATCH_CONFIG_FAST_COMPILE
$(FIRST_TESTS): $(OUT)/test/first.hpp.gch
$(FIRST_TESTS): private EXTRA += -include $(OUT)/test/first.hpp
$(OUT)/test/first.hpp.gch: test/check.hpp test/catch.hpp | catch2
$(OUT)/%/first.hpp.gch: $(OUT)/command
	@mkdir -p $(@D)
	@printf '#include %s\n' $(patsubst %,'%',$(FIRST_$*)) > $@.new
	@cmp -s $@.new $(@:.gch=) && rm $@.new || mv $@.new $(@:.gch=)
	@rm -f $@
	$(call SAY,c++   $*/first.hpp)$(COMPILE) $(if $(call has,__clang__),-Xclang -fno-pch-timestamp) \
	  -x c++-header $(@:.gch=) -o $@

# g++ for ARM orders instructions before it assigns registers, and then the sums of gemm's tiles do not fit into them.
$(OUT)/layers/kernels/gemm.o: private EXTRA += $(if $(call has,__clang__),,$(if $(call has,__aarch64__),\
  -fno-schedule-insns))

# The commit that --version prints. A source archive of a release has it in VERSION.
COMMIT := $(shell { [ -e .git ] && git describe --always --dirty || cat VERSION; } 2>/dev/null)
VERSIONED := $(filter $(OUT)/data/host/room.o $(OUT)/data/host/version.o,$(LIBRARY))
$(VERSIONED): private OPTIMIZE += $(if $(COMMIT),-DCOMMIT='"$(COMMIT)"')
$(VERSIONED): $(OUT)/commit
$(OUT)/commit: FORCE
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@

# The code of models that transformers has no class for, as a string literal.
HUGGINGFACE := $(OUT)/data/formats/huggingface
MODELING := $(filter $(HUGGINGFACE)/room.o $(HUGGINGFACE)/modeling.o,$(LIBRARY))
$(MODELING): $(HUGGINGFACE)/modeling_train_gpt.inc
$(MODELING): private EXTRA += -I$(HUGGINGFACE)
$(HUGGINGFACE)/modeling_train_gpt.inc: data/formats/huggingface/modeling_train_gpt.py
	@mkdir -p $(@D)
	@{ echo 'R"python('; cat $<; echo ')python"'; } > $@

# build/train_gpt is the program that was built last.
build/train_gpt: $(PROGRAM) FORCE
	@ln -sf $(<:build/%=%) $@

$(OUT)/%.o: %.cpp $(OUT)/command
	@mkdir -p $(@D)
	$(call SAY,c++   $<)$(COMPILE) -MMD -MP -c $< -o $@

$(OUT)/%/room.o: $(OUT)/%/room.cpp $(OUT)/command
	$(call SAY,c++   $*/*.cpp)$(COMPILE) -MMD -MP -c $< -o $@

$(RANKS): $(OUT)/data/ranks/room.cpp $(OUT)/command
	$(call SAY,c++   data/ranks/*.cpp with MPI)$(COMPILE) $(MPI_FLAGS) -MMD -MP -c $< -o $@

$(patsubst %,$(OUT)/%/room.cpp,$(sort $(ROOMS_JOINED) data/ranks)): $(OUT)/%/room.cpp: FORCE
	@mkdir -p $(@D)
	@printf '#include "%s"\n' $(wildcard $*/*.cpp) | cmp -s - $@ || printf '#include "%s"\n' $(wildcard $*/*.cpp) > $@

# A build from nothing takes a while: say how long.
.PHONY: build-time
$(TESTED): | build-time
build-time:
	@n=$(words $(filter-out $(wildcard $(TESTED)),$(TESTED))); \
	  [ $$n -lt 10 ] || dev/build_time.sh $$n $(CPUS) $(CXX)

# Changes when the command line, the compiler or the processor does; every object depends on it.
COMMAND = $(COMPILE) · $(COMPILER) · $(SIMD)
$(OUT)/command: FORCE
	@mkdir -p $(@D)
	@echo '$(COMMAND)' | cmp -s - $@ || echo '$(COMMAND)' > $@

-include $(patsubst %.o,%.d,$(OUT)/train_gpt.o $(LIBRARY) $(TESTS) $(BENCH)) $(wildcard $(OUT)/dev/ladder/*.d $(OUT)/dev/peers/*.d)

# ---- Run -----------------------------------------------------------------------------------------

# OLDEST=1: the exchanges with other programs, in their oldest supported versions (python_ref/requirements-*-oldest.txt).
VENV := $(if $(OLDEST),build/oldest,.venv)
PYTHON := $(VENV)/bin/python

# The text that the program writes itself: tales to train on in minutes, and longer stories for comparisons and studies.
build/tales.txt build/stories.txt: build/%.txt: | build/train_gpt
	@build/train_gpt corpus --grammar $* --bytes 4M --seed 1 --out $@
DATA_WRITTEN := $(filter build/stories.txt,$(DATA))
stories: build/stories.txt  ## write build/stories.txt, the text of the examples

TALES := $(filter build/tales.txt,$(TRAIN_DATA))
# For a shell: one file if DATA is the name of one, even with spaces, or else several.
quoted = '$(subst ','\'',$(1))'
files = $(if $(wildcard $(subst $() ,\ ,$(1))),$(call quoted,$(1)),$(1))
train: build/train_gpt $(TALES)  ## train on DATA=my.txt, or on tales that the program writes
	@build/train_gpt train --data $(call files,$(TRAIN_DATA)) $(if $(TALES),--config dev/recipes/tales.toml) $(ARGS)

RECIPE ?= dev/recipes/compare.toml
# Its tables are below runs/, or in the folder of --out in ARGS.
COMPARED = runs $(filter-out runs/%,$(patsubst --out=%,%,$(filter --out=%,$(subst --out ,--out=,$(strip $(ARGS))))))
compare: build/train_gpt $(DATA_WRITTEN)  ## compare normalizations; ARGS='--grid placement=post,pre norm=rmsnorm'
	@touch build/compare-began
	@build/train_gpt compare --data $(call files,$(DATA)) --config $(RECIPE) $(ARGS)
	@for table in $$(find $(COMPARED) -name summary.csv -newer build/compare-began 2>/dev/null); do \
	  run="$${table%/summary.csv}"; \
	  if $(MAKE) --no-print-directory .venv/.report; then $(PYTHON) dev/report/report.py "$$run"; \
	  else echo "no report: \`make report RUN=$$run\` makes it where Python's packages can be had"; fi; done

# Without ARGS, measures the parts that depend on the processor again, as lesser processors of this kind would run them.
LESSER := $(if $(ARGS)$(filter-out native,$(MARCH)),,\
  $(if $(filter AVX-512,$(SIMD)),x86-64-v3) $(if $(filter AVX-512 AVX2,$(SIMD)),x86-64))
bench:  ## measure speed, layer by layer; ARGS='gemm', 'steps', '--quick'
	@$(MAKE) --no-print-directory run-bench
	@for march in $(LESSER); do \
	  $(MAKE) --no-print-directory run-bench MARCH=$$march ARGS='gemm layers sampling steps' || exit; done
	@$(if $(LESSER),$(OUT)/bench --summary $(patsubst %,build/bench-%.json,native $(LESSER)))

# Times PyTorch and NumPy, too, if .venv has them.
.PHONY: run-bench
run-bench: $(OUT)/bench
	@if $(PYTHON) -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null; \
	then $(OUT)/bench --json build/bench-$(MARCH).json --peer '$(PYTHON) dev/bench/peer.py' $(ARGS); \
	else echo "without PyTorch's numbers: \`make venv\` would add them"; \
	  $(OUT)/bench --json build/bench-$(MARCH).json $(ARGS); fi

$(OUT)/bench: $(BENCH) $(LIBRARY)
	$(call SAY,link  $@)$(LINK)

# Some tests run the program, which is in the same folder. GNU's OpenMP reads how long a thread spins before it sleeps
# when a process starts: long spins make tests ten times slower on a machine that does something else too.
test: tests  ## run all tests, or some; ARGS='[norm]', SUITE=layers
	@GOMP_SPINCOUNT=1000 $(if $(SANITIZE),SANITIZED=1) $(EMULATOR) $(TEST_PROGRAM) $(ARGS)

tests: $(TEST_PROGRAM) $(if $(SUITE),,$(PROGRAM))  ## build the tests

# The tests are compiled once, for this processor and without sanitizers.
asan: $(TESTS)  ## run the tests on a program with the address and undefined-behavior sanitizers
	@$(MAKE) --no-print-directory test SANITIZE=1 TESTS_BUILT='$(TESTS)' ARGS='$(ARGS)'

test-elsewhere: $(TESTS)  ## run the tests as a lesser processor of this kind runs them; ON=x86-64
	@$(MAKE) --no-print-directory test MARCH='$(ON)' TESTS_BUILT='$(TESTS)' ARGS='$(ARGS)'

# Debian's names: a cross compiler looks for its libraries below /usr/$(ARM), and so must the emulator.
test-arm: ARM_CXX := $(or $(NAMED_CXX),$(ARM)-g++)
test-arm: export EMULATOR := $(or $(EMULATOR),qemu-aarch64 -L /usr/$(ARM))
test-arm:  ## run tests as a 64-bit ARM processor runs them, emulated; SUITE=kernels
	@CXX='$(ARM_CXX)' dev/setup.sh arm
	@$(MAKE) --no-print-directory test SUITE='$(or $(SUITE),layers)' CXX='$(ARM_CXX)' ARGS='$(ARGS)'

# Only for Linux with glibc, because the library is loaded between the program and its C library.
FAULTS_NEED := $(OUT)/train_gpt $(OUT)/preload.so
faults: $(FAULTS_NEED)  ## make system calls and allocations fail, kill runs, forge files; ARGS=forged
	@python3 dev/faults/faults.py $^ $(ARGS)

$(OUT)/preload.so: dev/faults/preload.c
	$(call SAY,cc    $<)$(CC) -Wall -Wextra -O1 -shared -fPIC -o $@ $< -ldl

# libFuzzer comes with clang.
fuzz:  ## feed damaged files to every parser, 30 minutes each; ARGS='--seconds 60 text'
	@$(MAKE) --no-print-directory CXX='$(or $(NAMED_CXX),clang++)' SANITIZE=1 FUZZ=1 run-fuzz

.PHONY: run-fuzz
run-fuzz: $(OUT)/fuzz
	@dev/fuzz/fuzz.sh $< $(ARGS)

$(OUT)/fuzz: $(OUT)/dev/fuzz/fuzz.o $(OUT)/test/parsers.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK) -fsanitize=fuzzer

mutants: catch2  ## break the code in many small ways; each must turn a test red
	@dev/mutants.sh $(ARGS)

pages:  ## copy code into the pages of layers/
	@dev/pages.sh

# Each ladder is a program; its last rung is a function of the library. ARGS picks some by name; its other words are
# their sizes.
LADDERS := gemm norm attention
CLIMBED := $(or $(filter $(LADDERS),$(ARGS)),$(LADDERS))
ladders: $(CLIMBED:%=$(OUT)/dev/ladder/%)  ## run the kernel ladders; ARGS=gemm, ARGS='norm 768 128'
	@for ladder in $^; do GOMP_SPINCOUNT=1000 $$ladder $(filter-out $(LADDERS),$(ARGS)) || exit; done

$(LADDERS:%=$(OUT)/dev/ladder/%): %: %.o $(OUT)/dev/ladder/ladder.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)

# dev/peers.sh builds and runs it.
$(OUT)/dev/peers/peers: %: %.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)

# ---- The playground: layers/ and a little of data/ as WebAssembly, with 4-lane vectors ------------

ifneq (,$(filter $(PLAYGROUND),$(MAKECMDGOALS)))
include build/playground/config.mk
endif
build/playground/config.mk: dev/setup.sh
	@dev/setup.sh playground --config $@

WASM_OUT := build/playground/wasm
WASM_DATA := $(patsubst %,data/%.cpp,host/format host/json host/utf8 options/options options/settings \
  options/settings_file options/toml run/generate_text run/schedule run/step_inputs commands/model_text text/corpus \
  text/dataset text/grammar text/split text/tokens tokenizer/tokenizer)
WASM_LAYERS := $(filter-out layers/textbook/%,$(sort $(wildcard layers/*/*.cpp)))
WASM_OBJECTS := $(patsubst %.cpp,$(WASM_OUT)/%.o,$(WASM_LAYERS) $(WASM_DATA) \
  $(patsubst %,dev/playground/%.cpp,drawing engine kernels reading wasm))
# LLVM leaves `invoke` out for a target without exceptions, so a throw ends in __cxa_throw of wasm.cpp.
WASM_COMPILE = $(WASM_CXX) --target=wasm32-wasi -msimd128 -std=c++20 -fexceptions -fno-math-errno -fno-trapping-math \
  -ffp-contract=fast -Wall -Wextra -Wno-unknown-pragmas -I. -isystem build/playground/include $(WASM_CXXFLAGS)
WASM_EXPORTS = $(patsubst %,-Xlinker --export=%,__stack_pointer \
  $(shell grep -o 'engine_[a-z_]*' dev/playground/engine.hpp | sort -u))

build/playground/engine.wasm: $(WASM_OBJECTS)
	$(call SAY,link  $@)$(WASM_COMPILE) -mexec-model=reactor $(WASM_EXPORTS) -Wl,--strip-all,-z,stack-size=1048576 \
	  -o $@ $^

# The layers are the loops; the rest runs for a moment.
$(WASM_OUT)/layers/%.o: private WASM_OPTIMIZE := -O3
$(WASM_OUT)/data/%.o $(WASM_OUT)/dev/%.o: private WASM_OPTIMIZE := -Os
$(WASM_OUT)/%.o: %.cpp build/playground/config.mk
	@mkdir -p $(@D)
	$(call SAY,wasm  $<)$(WASM_COMPILE) $(WASM_OPTIMIZE) -MMD -MP -c $< -o $@

-include $(WASM_OBJECTS:.o=.d)

playground: build/playground.html  ## write build/playground.html, a page that trains models in the browser
PAGE_OF_PLAYGROUND := $(wildcard dev/playground/*.js dev/playground/*.html dev/playground/*.css dev/playground/uplot/*)
build/playground.html: build/playground/engine.wasm dev/playground/bundle.py $(PAGE_OF_PLAYGROUND)
	@python3 dev/playground/bundle.py $< $@

test-scenes: build/playground.html  ## run the playground's scenes in a headless browser
	@python3 dev/playground/test_scenes.py $(ARGS)

test-playground:  ## compare the playground's engine with the native one, which has 4-lane vectors; needs node
	+@MAKE='$(MAKE)' dev/playground/test.sh $(ARGS)

# The same engine as a native program. build/native_engine is the one that was built last.
NATIVE_ENGINE := $(patsubst %,$(OUT)/dev/playground/%.o,drawing engine kernels native reading)
build/native_engine: $(OUT)/native_engine FORCE
	@ln -sf $(<:build/%=%) $@
$(OUT)/native_engine: $(NATIVE_ENGINE) $(LIBRARY)
	$(call SAY,link  $@)$(LINK)
-include $(NATIVE_ENGINE:.o=.d)

# These need only a compiler, so there is no configuration (dev/exercise/README.md).
exercise:  ## begin exercise LAYER=norm, or list all exercises
	@FORCE='$(FORCE)' HINT='$(HINT)' dev/exercise/exercise.sh $(if $(LAYER),begin $(LAYER)) || [ $$? = 1 ]

check-exercise:  ## check exercise LAYER=norm, or the newest
	@CXX='$(if $(filter default undefined,$(origin CXX)),,$(CXX))' dev/exercise/exercise.sh check $(LAYER) || [ $$? != 2 ]

# Catch2 3 comes as a library, version 2 as a header. Our library comes first: what tests and it both have of an inline
# function is then as it is in train_gpt.
$(TEST_PROGRAM): $(TESTED) $(TESTS)
	$(call SAY,link  $@)$(LINK) $$(echo '#include <catch2/catch.hpp>' | \
	  $(CXX) -isystem build/include -fsyntax-only -x c++ - 2>/dev/null || echo -lCatch2)
$(TESTS): | catch2
.PHONY: catch2
catch2:
	@CXX='$(CXX)' EMULATOR='$(EMULATOR)' dev/setup.sh $(SUITE) test

# ---- Install and release ---------------------------------------------------------------------------

PREFIX ?= /usr/local
install: $(OUT)/train_gpt  ## install below PREFIX=/usr/local; MARCH=x86-64-v3 for other processors than this one
	@dev/release/install.sh $< '$(DESTDIR)$(PREFIX)'

uninstall:  ## remove what install put below PREFIX=/usr/local
	@dev/release/install.sh --remove '$(DESTDIR)$(PREFIX)'

dist:  ## write build/dist/: static Linux programs for x86-64-v3 and -v4, and the sources, for a release
	+@MAKE='$(MAKE)' dev/release/dist.sh

# ld warns of dlopen in libgomp. libgomp calls it for code that runs on accelerators, of which train_gpt has none.
build/dist/train_gpt-$(MARCH): $(OUT)/train_gpt.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call SAY,link  $@)$(LINK) -static -s

# ---- Python: reports, and the PyTorch reference ---------------------------------------------------

report: .venv/.report  ## write report.html of RUN=DIR, of several runs, or of the newest
	@$(PYTHON) dev/report/report.py $(RUN)

watch: .venv/.report  ## watch runs in a browser while they train; RUN=DIR, or the newest
	@$(PYTHON) dev/report/watch.py $(RUN) $(ARGS)

tensorboard: .venv/.report  ## write metrics for TensorBoard; RUN=DIR, or the newest
	@$(PYTHON) dev/report/events.py $(RUN)

STUDIES = $(notdir $(patsubst %/study.py,%,$(wildcard dev/studies/*/study.py)))
study: .venv/.report build/train_gpt  ## repeat a published result: STUDY=warmup or another of dev/studies/; ARGS=--long
	@$(PYTHON) dev/studies/$(or $(STUDY),$(error say which: STUDY=$(subst $() ,|,$(STUDIES))))/study.py $(ARGS)

pictures: .venv/.report  ## draw the pictures of the pages that need no training run
	@$(PYTHON) dev/pictures/draw.py $(ARGS)

test-report: .venv/.report  ## test reports in a browser, recompute the numbers of the studies
	@$(PYTHON) dev/report/test_report.py $(ARGS)

# The book contains all Markdown of the project, and the playground if build/playground.html exists.
book: .venv/.book  ## write build/book/, the course as a site that needs no network
	@rm -rf build/book
	@$(PYTHON) -m sphinx --quiet --fresh-env -n -W --keep-going -d build/book-doctrees -c dev/book . build/book
	@echo build/book/index.html

test-book: book  ## check every link of the book, and look at its pages in a browser
	@$(PYTHON) dev/book/test_book.py

reference: venv  ## write test/reference/*.npy with PyTorch
	@$(PYTHON) python_ref/reference.py $(ARGS)

reference-huggingface: .venv/.huggingface  ## write test/reference/huggingface with Hugging Face's models
	@$(PYTHON) python_ref/huggingface.py $(ARGS)

check-formats: $(VENV)/.huggingface  ## exchange models with transformers and adapters with peft, and compare results
check-gguf: $(VENV)/.gguf  ## run exported models in llama.cpp, and compare results
check-tokenizers: $(VENV)/.huggingface  ## compare the tokens of exported tokenizers in transformers with ours
$(EXCHANGES): build/train_gpt
	@$(PYTHON) python_ref/$(subst -,_,$@).py $(ARGS)

check-pages: venv  ## run the PyTorch lines of the pages, and compare them with the worked examples
	@$(PYTHON) python_ref/check_pages.py

check-markdown: .venv/.markdown  ## check links, tables, formulas and sections of the pages
	@$(PYTHON) python_ref/check_markdown.py

curves: venv build/train_gpt $(DATA_WRITTEN)  ## train beside PyTorch on DATA, compare the losses
	@$(PYTHON) python_ref/curves.py --binary build/train_gpt --data $(call files,$(DATA)) --out build/curves $(ARGS)

venv: .venv/.python_ref .venv/.report  ## install PyTorch and the other Python packages into .venv/

# One after the other, because two pips would disturb each other. Separate, so that reports do not need PyTorch.
PIP = echo 'pip install -r $<'; $(PYTHON) -m pip install --quiet --disable-pip-version-check -r $<
.venv/.python_ref: python_ref/requirements.txt | .venv/.report
	@$(PIP)
	@touch $@

.venv/.huggingface .venv/.gguf: .venv/.%: python_ref/requirements-%.txt | .venv/.report
	@$(PIP)
	@touch $@

build/oldest/.huggingface build/oldest/.gguf: build/oldest/.%: python_ref/requirements-%-oldest.txt | $(PYTHON)
	@$(PIP)
	@touch $@

.venv/.book: dev/book/requirements.txt
.venv/.markdown: python_ref/requirements-markdown.txt
.venv/.book .venv/.markdown: | $(PYTHON)
	@$(PIP)
	@touch $@

# If pip cannot reach its packages, the system's packages do.
.venv/.report: dev/report/requirements.txt | $(PYTHON)
	@$(PIP) || { echo 'pip could not: trying the packages of this system'; dev/setup.sh report && \
	  python3 -m venv --system-site-packages .venv && $(PYTHON) -c 'import plotly, pandas, matplotlib, scipy'; }
	@touch $@

$(PYTHON):
	@python3 -c 'import venv, ensurepip' 2>/dev/null || dev/setup.sh python
	python3 -m venv $(VENV)

# --------------------------------------------------------------------------------------------------

clean:  ## remove build/, except build/exercise/
	[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name exercise -exec rm -rf {} +

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1|/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='|' read -r goal text; do printf '  make %-22s %s\n' "$$goal" "$$text"; done
	@echo
	@sed -n '3,5s/^# *//p' $(firstword $(MAKEFILE_LIST)) | sed 's/^/  /'

endif
