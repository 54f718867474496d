# libFuzzer comes with clang, on Debian in a package of its own.
fuzz:  ## feed damaged files to every parser, 30 minutes each; ARGS='--seconds 60 text'
	@$(MAKE) --no-print-directory CXX='$(or $(NAMED_CXX),clang++)' SANITIZE=1 FUZZ=1 run-fuzz

.PHONY: run-fuzz
run-fuzz: $(OUT)/fuzz
	@dev/fuzz/fuzz.sh $< $(ARGS)

$(OUT)/fuzz: $(OUT)/dev/fuzz/fuzz.o $(OUT)/test/support/parsers.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK) -fsanitize=fuzzer || \
	  { echo 'fuzz: clang lacks its libraries: on Debian, install libclang-rt-NN-dev, NN being its version'; exit 1; }
