# Without ARGS, measures the parts that depend on the processor again, as lesser processors of this kind would run them.
LESSER = $(if $(ARGS)$(filter-out native,$(MARCH)),,\
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

$(OUT)/bench: $(patsubst %.cpp,$(OUT)/%.o,$(wildcard dev/bench/*.cpp)) $(LIBRARY)
	$(call SAY,link  $@)$(LINK)

# The compiler reads the programs that the nightly run alone builds, so that a change cannot break them unnoticed.
check-tools:  ## check that the benchmark, the ladders, the fuzzer and the peers' programs still compile
	@printf '#include "%s"\n' $(wildcard dev/bench/*.cpp) | $(COMPILE) -fsyntax-only -x c++ -
	@for file in $(wildcard dev/fuzz/*.cpp dev/ladder/*.cpp dev/peers/*.cpp); do $(COMPILE) -fsyntax-only $$file || exit; done
