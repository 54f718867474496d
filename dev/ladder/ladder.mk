# Each ladder is a program; its last rung is a function of the library. ARGS picks some by name; its other words are
# their sizes.
LADDERS := gemm norm attention
CLIMBED := $(or $(filter $(LADDERS),$(ARGS)),$(LADDERS))
ladders: $(CLIMBED:%=$(OUT)/dev/ladder/%)  ## run the kernel ladders; ARGS=gemm, ARGS='norm 768 128'
	@for ladder in $^; do GOMP_SPINCOUNT=1000 $$ladder $(filter-out $(LADDERS),$(ARGS)) || exit; done

$(LADDERS:%=$(OUT)/dev/ladder/%): %: %.o $(OUT)/dev/ladder/ladder.o $(LIBRARY)
	$(call SAY,link  $@)$(LINK)
