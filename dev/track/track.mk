NO_COMPILER += track track-check

# A program for x86-64-v3 computes the same bits on every processor with AVX2.
TRACKED = $(if $(ENTRY),$(MAKE) --no-print-directory MARCH=x86-64-v3 build/train_gpt)
track: .venv/.report  ## run an entry of the track, ENTRY=post or all; without ENTRY: list them
	@$(TRACKED)
	@$(PYTHON) dev/track/track.py $(ENTRY) $(ARGS)

track-check: .venv/.report  ## repeat three runs of ENTRY=post, and compare the bits
	@$(TRACKED)
	@$(PYTHON) dev/track/track.py --check $(ENTRY) $(ARGS)
