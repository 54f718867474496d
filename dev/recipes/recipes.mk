# Training and comparing. The program writes the text that it trains on if there is no DATA: tales to train on in
# minutes, and longer stories for comparisons and studies.

TRAIN_DATA := $(or $(DATA),build/tales.txt)
DATA ?= build/stories.txt
DATA_WRITTEN := $(filter build/stories.txt,$(DATA))
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

stories: build/stories.txt  ## write build/stories.txt, the text of the examples
build/tales.txt build/stories.txt: build/%.txt: | build/train_gpt
	@build/train_gpt corpus --grammar $* --bytes 4M --seed 1 --out $@
