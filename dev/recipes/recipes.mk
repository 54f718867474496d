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

# A text with facts, a base that learns them, and a run that learns to answer; the last line measures the answers to
# questions about people whom it was never asked about. What is there already is not made again.
TOWN = build/town
answers: build/train_gpt $(TOWN)/answers/outcome.json  ## learn facts about a made-up town, then to answer questions
	@build/train_gpt eval $(TOWN)/answers --data $(TOWN)/held_out.jsonl

$(TOWN)/text.txt: | build/train_gpt
	@mkdir -p $(@D)
	@build/train_gpt corpus --grammar town --bytes 4M --out $@ --force \
	  --questions $(TOWN)/asked.jsonl --held-out $(TOWN)/held_out.jsonl

resumed = $(if $(wildcard $(@D)/checkpoint.safetensors),--resume)
$(TOWN)/base/outcome.json: $(TOWN)/text.txt | build/train_gpt
	@build/train_gpt train --data $< --config dev/recipes/town.toml --out $(@D) $(resumed)

$(TOWN)/answers/outcome.json: $(TOWN)/base/outcome.json | build/train_gpt
	@build/train_gpt train --data $(TOWN)/asked.jsonl --val-data $(TOWN)/held_out.jsonl --init-from $(<D) \
	  --config dev/recipes/answers.toml --out $(@D) $(resumed)
