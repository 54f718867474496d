# train_gpt. `make` builds, `make train` trains, `make test` checks; `make help` lists the rest.
#
#   CXX=clang++          another compiler              MARCH=x86-64-v3     for another processor
#   DATA=my.txt          text to train on              ARGS='--steps 9'    options of the command that is run
#   CXXFLAGS, LDFLAGS    added to the command lines    V=1                 show the command lines
#   MPI=1                trains on many machines       EMULATOR             runs what a cross compiler made
#
# This file builds the program. The goals of a folder are in its .mk file.

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
NAMED_CXX := $(if $(filter default undefined,$(origin CXX)),,$(CXX))
KEY := $(subst /,_,$(subst $() ,_,$(or $(NAMED_CXX),auto)-$(MARCH)))
MPICXX ?= mpicxx
WITH_MPI := $(if $(MPI),-$(notdir $(MPICXX)))
# OLDEST=1: the exchanges with other programs, in their oldest supported versions (python_ref/requirements-*-oldest.txt).
VENV := $(if $(OLDEST),build/oldest,.venv)
PYTHON := $(VENV)/bin/python
SAY = $(if $(V),,@echo "  $(1)";)

.PHONY: FORCE
.DELETE_ON_ERROR:

all: build/train_gpt  ## build build/train_gpt (the default)

# ---- What there is to build ------------------------------------------------------------------------

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

# Goals that compile nothing here need no configuration. Each .mk file adds its own.
NO_COMPILER := clean help
include $(foreach folder,dev/recipes test dev/exercise dev/report dev/studies dev/track dev/pictures dev/playground \
  dev/book dev/paper dev/release dev/notebook dev/bench dev/ladder dev/peers dev/faults dev/fuzz python_ref,\
  $(folder)/$(notdir $(folder)).mk)
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*  \#\# .*/\1/p' $(MAKEFILE_LIST))

# ---- What this machine has: dev/setup.sh finds it, or installs it, and writes it down ------------

ifneq (,$(filter-out $(NO_COMPILER),$(or $(MAKECMDGOALS),all)))

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
SIMD := $(strip $(if $(call has,__AVX512F__),\
  AVX-512 $(if $(call has,__AVX512BF16__),+ BF16) $(if $(call has,__AMX_BF16__),+ AMX), \
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

# The checks that are left out double the compile time, and .ci/nightly has them. The address sanitizer sees bad
# pointers, too.
CHECKED := -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all \
  -fno-sanitize=null,alignment,vptr,object-size,pointer-overflow \
  $(if $(FUZZ),,-fno-sanitize-address-use-after-scope)
SANITIZERS := $(if $(SANITIZE),$(CHECKED)) $(if $(FUZZ),-fsanitize=fuzzer-no-link)
OPTIMIZE := $(if $(SANITIZE),-O1,-O3) $(SANITIZERS)
# GCC bug 105651: g++ 12 warns of overlapping copies in std::string where there are none.
WARNINGS := -Wall -Wextra $(if $(call has,__clang__),,-Wno-restrict $(if $(SANITIZE),-Wno-maybe-uninitialized)) $(if $(OPENMP),,-Wno-unknown-pragmas)
EXTRA :=  # flags for single files; if CXXFLAGS is on the command line, += has no effect
# No -ffast-math: NaN, infinity and masks keep their meaning.
COMPILE = $(CXX) -std=c++20 $(OPTIMIZE) $(ARCH) -fno-math-errno -fno-trapping-math -ffp-contract=fast \
  $(WARNINGS) $(OPENMP) -I. -isystem build/include $(EXTRA) $(CXXFLAGS)
LINK = $(COMPILE) -o $@ $(filter %.o,$^) $(OPENMP_LIBS) $(PCRE2_LIBS) $(UTF8PROC_LIBS) $(MPI_FLAGS) $(LDFLAGS)

$(PROGRAM): $(OUT)/train_gpt.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)

# A call checks an address as code in place does. It compiles faster and runs more slowly.
CALLS := $(if $(SANITIZE),$(if $(call has,__clang__),,--param asan-instrumentation-with-call-threshold=0))
# Only layers/, the tokenizer, UTF-8, JSON, hashes of files and the measurement of the peak run for long. -Og compiles
# the rest of data/, and the readers of tokenizers, in half the time of -O3.
LONG := $(if $(SANITIZE),,$(foreach room,strings files host tokenizer,$(OUT)/data/$(room)/%))
BRIEF := $(OUT)/train_gpt.o $(filter $(OUT)/data/tokenizer/files/% $(OUT)/data/tokenizer/gguf/%,$(LIBRARY)) \
  $(filter-out $(LONG),$(filter $(OUT)/data/%,$(LIBRARY)))
$(OUT)/data/first.hpp.gch $(BRIEF): private OPTIMIZE := -Og $(SANITIZERS) $(CALLS)

# The headers that most files include are compiled once.
FIRST_layers := "layers/kernels/simd.hpp" "layers/kernels/parallel.hpp" $(patsubst %,<%>,algorithm cmath cstring \
  functional limits memory optional stdexcept string vector)
FIRST_data := <nlohmann/json.hpp> $(patsubst %,<%>,algorithm cmath cstdio filesystem fstream functional map memory \
  optional set sstream stdexcept string vector)
LAYERS := $(filter $(OUT)/layers/%,$(LIBRARY))
$(LAYERS): $(OUT)/layers/first.hpp.gch
$(LAYERS): private EXTRA += -include $(OUT)/layers/first.hpp
$(BRIEF): $(OUT)/data/first.hpp.gch
$(BRIEF): private EXTRA += -include $(OUT)/data/first.hpp
$(OUT)/%/first.hpp.gch: $(OUT)/command
	@mkdir -p $(@D)
	@new=$@.$$$$; printf '#include %s\n' $(patsubst %,'%',$(FIRST_$*)) > $$new && \
	  if cmp -s $$new $(@:.gch=); then rm $$new; else mv $$new $(@:.gch=); fi
	@rm -f $@
	$(call SAY,c++   $*/first.hpp)$(COMPILE) $(if $(call has,__clang__),-Xclang -fno-pch-timestamp) \
	  -MMD -MP -x c++-header $(@:.gch=) -o $@

# g++ for ARM orders instructions before it assigns registers, and then the sums of gemm's tiles do not fit into them.
$(OUT)/layers/kernels/gemm.o: private EXTRA += $(if $(call has,__clang__),,$(if $(call has,__aarch64__),\
  -fno-schedule-insns))

# The textbook is there to be read: -O3 takes twice as long to compile it, and makes it a quarter faster.
$(OUT)/layers/textbook/%.o: private OPTIMIZE := $(OPTIMIZE:-O3=-O2)

# What --version prints: 0.1.0, or 0.1.0+ab12cd between releases.
COMMIT := $(shell dev/release/version.sh 2>/dev/null)
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

-include $(wildcard $(OUT)/*.d $(OUT)/*/*.d $(OUT)/*/*/*.d $(OUT)/*/*/*/*.d $(OUT)/*/*/*/*/*.d)

clean:  ## remove build/, except build/exercise/
	[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name exercise -exec rm -rf {} +

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1|/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r goal text; do printf '  make %-22s %s\n' "$$goal" "$$text"; done
	@echo
	@sed -n '3,6s/^# *//p' $(firstword $(MAKEFILE_LIST)) | sed 's/^/  /'

endif
