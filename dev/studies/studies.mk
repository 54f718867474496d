STUDIES = $(notdir $(patsubst %/study.py,%,$(wildcard dev/studies/*/study.py)))
study: .venv/.report build/train_gpt  ## repeat a published result: STUDY=warmup or another of dev/studies/; ARGS=--long
	@$(PYTHON) dev/studies/$(or $(STUDY),$(error say which: STUDY=$(subst $() ,|,$(STUDIES))))/study.py $(ARGS)
