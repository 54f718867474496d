NO_COMPILER += test-arm pages

# Each room of layers/ and data/ has a folder of its own here. What tests share is in test/support/.
TEST_FILES_ := $(sort $(shell find test -name '*.cpp'))
# SUITE=layers: the tests whose results may differ between processors. They need layers/ alone.
NEED_MORE := "data/\|"\(program\|small_run\|table\|pages\|tree\|markdown\|worked\)[.]hpp"
SAME_EVERYWHERE := check config tensors textbook textbook_model
TEST_FILES_layers := test/support/main.cpp \
  $(filter-out $(SAME_EVERYWHERE:%=\%/test_%.cpp),$(shell grep -L '$(NEED_MORE)' $(TEST_FILES_)))
# SUITE=kernels: the fast loops alone, which depend most on the processor. [long] tests take many seconds or minutes if
# they are emulated or run under the sanitizers.
TEST_FILES_kernels := $(patsubst %,test/support/%.cpp,main check reference) \
  $(filter $(patsubst %,\%/test_%.cpp,gemm gemm_tiles simd activation attention cross_entropy norm optimizer),\
    $(TEST_FILES_))
NEEDED_kernels := kernels/% config/% norm/% attention/attention.o cross_entropy/% embedding/% \
  feed_forward/activation.o linear/linear.o model/resolve.o dropout/dropout.o \
  $(addprefix training/,optimizer.o adafactor.o muon.o run_optimizer.o)
NEEDED_layers := %
# Tests that read files or run the program.
RUN_TESTS := $(shell grep -l 'small_run[.]hpp\|"data/' $(filter-out test/support/%,$(TEST_FILES_)))

# Tests are compiled in groups: headers are read and templates instantiated once for a group, which halves the time.
# With TESTS_JOINED=1 each file is compiled by itself, so that a change of one compiles less. All tests of a group run
# in the same suites. test_simd stays alone: it compiles the vector functions as layers/ does, because the linker takes
# any of the copies that are not inlined.
TESTS_JOINED ?= 8
ALONE := $(filter test/support/% %/test_simd.cpp,$(TEST_FILES_$(SUITE)))
joined = $(if $(1),$(eval GROUP_$(patsubst test/%.cpp,%,$(firstword $(1))) := $(wordlist 1,$(TESTS_JOINED),$(1)))\
  $(patsubst test/%,test/joined/%,$(firstword $(1))) $(call joined,$(filter-out $(wordlist 1,$(TESTS_JOINED),$(1)),$(1))))
GROUPS_kernels := $(call joined,$(filter-out $(ALONE),$(TEST_FILES_kernels)))
GROUPS_layers := $(call joined,$(filter-out $(ALONE) $(TEST_FILES_kernels),$(TEST_FILES_layers)))
GROUPS_run := $(call joined,$(RUN_TESTS))
GROUPS_ := $(call joined,$(filter-out $(ALONE) $(TEST_FILES_kernels) $(TEST_FILES_layers) $(RUN_TESTS),$(TEST_FILES_)))
UNITS_kernels := $(ALONE) $(GROUPS_kernels)
UNITS_layers := $(UNITS_kernels) $(GROUPS_layers)
UNITS_ := $(UNITS_layers) $(GROUPS_run) $(GROUPS_)

# TESTS_BUILT: objects of another build of this tree, to link instead of compiling tests again. test_simd is compiled
# again, because the width of its vectors depends on the processor.
TESTS_BUILT ?=
TESTS := $(foreach test,$(sort $(UNITS_$(SUITE):%.cpp=%)),\
  $(or $(filter %/$(test).o,$(filter-out %/test_simd.o,$(TESTS_BUILT))),$(OUT)/$(test).o))
TEST_PROGRAM := $(OUT)/tests$(SUITE:%=-%)
TESTED := $(if $(SUITE),$(filter $(NEEDED_$(SUITE):%=$(OUT)/layers/%),$(LIBRARY)),$(LIBRARY))

EASY_TESTS := $(filter-out %/test_simd.o,$(TESTS))
# The headers that most tests include are compiled once. Tests that read files or run the program have a second, larger
# set, because SUITE=layers builds without data/. Two files configure Catch2 before they include it.
FIRST_test := "check.hpp"
FIRST_test/run := "check.hpp" "small_run.hpp" <nlohmann/json.hpp> <filesystem> <fstream> <map> <sstream>
FIRST_OF_TESTS := $(OUT)/test/first.hpp.gch $(OUT)/test/run/first.hpp.gch
RUN_TESTS := $(filter $(GROUPS_run:%.cpp=$(OUT)/%.o),$(EASY_TESTS))
FIRST_TESTS := $(filter-out %/main.o %/check.o $(RUN_TESTS),$(filter $(OUT)/%,$(EASY_TESTS)))
$(FIRST_TESTS): $(OUT)/test/first.hpp.gch
$(FIRST_TESTS): private EXTRA += -include $(OUT)/test/first.hpp
$(RUN_TESTS): $(OUT)/test/run/first.hpp.gch
$(RUN_TESTS): private EXTRA += -include $(OUT)/test/run/first.hpp
$(FIRST_OF_TESTS) $(EASY_TESTS): private OPTIMIZE = -Og $(SANITIZERS)
# An exception in a CHECK ends its test case, not the CHECK alone: a tenth less to compile.
$(FIRST_OF_TESTS) $(TESTS): private EXTRA += -DCATCH_CONFIG_FAST_COMPILE -iquote test/support

JOINED_TESTS := $(filter $(OUT)/test/joined/%,$(TESTS))
$(JOINED_TESTS): $(OUT)/test/joined/%.o: $(OUT)/test/joined/%.cpp $(OUT)/command
	$(call SAY,c++   $(patsubst test_%,%,$(basename $(notdir $(GROUP_$*)))))$(COMPILE) -MMD -MP -c $< -o $@
# Each make writes a file of its own first, because .ci/run calls two at a time.
$(JOINED_TESTS:.o=.cpp): $(OUT)/test/joined/%.cpp: FORCE
	@mkdir -p $(@D)
	@new=$@.$$$$; test/join.sh $(GROUP_$*) > $$new && if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi

# Some tests run the program, which is in the same folder. GNU's OpenMP reads how long a thread spins before it sleeps
# when a process starts: long spins make tests ten times slower on a machine that does something else too.
test: tests  ## run all tests, or some; ARGS='[norm]', SUITE=layers
	@GOMP_SPINCOUNT=1000 $(if $(SANITIZE),SANITIZED=1) $(EMULATOR) $(TEST_PROGRAM) $(ARGS)

tests: $(TEST_PROGRAM) $(if $(SUITE),,$(PROGRAM))  ## build the tests

# The tests are compiled once, for this processor and without sanitizers.
asan: $(TESTS)  ## run the tests on a program with the address and undefined-behavior sanitizers; ON=x86-64-v3
	@$(MAKE) --no-print-directory test SANITIZE=1 $(if $(ON),MARCH='$(ON)') TESTS_BUILT='$(TESTS)' ARGS='$(ARGS)'

test-elsewhere: $(TESTS)  ## run the tests as a lesser processor of this kind runs them; ON=x86-64
	@$(MAKE) --no-print-directory test MARCH='$(ON)' TESTS_BUILT='$(TESTS)' ARGS='$(ARGS)'

ARM := aarch64-linux-gnu
# Debian's names: a cross compiler looks for its libraries below /usr/$(ARM), and so must the emulator.
test-arm: ARM_CXX := $(or $(NAMED_CXX),$(ARM)-g++)
test-arm: export EMULATOR := $(or $(EMULATOR),qemu-aarch64 -L /usr/$(ARM))
test-arm:  ## run tests as a 64-bit ARM processor runs them, emulated; SUITE=kernels
	@CXX='$(ARM_CXX)' dev/setup.sh arm
	@$(MAKE) --no-print-directory test SUITE='$(or $(SUITE),layers)' CXX='$(ARM_CXX)' ARGS='$(ARGS)'

mutants: catch2  ## break the code in many small ways; each must turn a test red
	@dev/mutants.sh $(ARGS)

pages:  ## copy code into the pages of layers/
	@dev/pages.sh

# Catch2 3 comes as a library, version 2 as a header. Our library comes first: what tests and it both have of an inline
# function is then as it is in train_gpt.
$(TEST_PROGRAM): $(TESTED) $(TESTS)
	$(call SAY,link  $@)$(LINK) $$(echo '#include <catch2/catch.hpp>' | \
	  $(CXX) -isystem build/include -fsyntax-only -x c++ - 2>/dev/null || echo -lCatch2)
$(TESTS) $(FIRST_OF_TESTS): | catch2
.PHONY: catch2
catch2:
	@CXX='$(CXX)' EMULATOR='$(EMULATOR)' dev/setup.sh $(SUITE) test
