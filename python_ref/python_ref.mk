# The PyTorch reference, and exchanges with other programs. Python's packages are installed here and in the folders that
# need more.
EXCHANGES := check-formats check-gguf check-tokenizers
NO_COMPILER += venv .venv/% build/oldest/% reference reference-huggingface check-layers check-pages check-pairs \
               check-markdown

reference: venv  ## write test/reference/*.npy with PyTorch
	@$(PYTHON) python_ref/reference.py $(ARGS)

reference-huggingface: .venv/.huggingface  ## write test/reference/huggingface with Hugging Face's models
	@$(PYTHON) python_ref/huggingface.py $(ARGS)

check-formats: $(VENV)/.huggingface  ## exchange models with transformers and adapters with peft, and compare results
check-gguf: $(VENV)/.gguf  ## run exported models in llama.cpp, and compare results
check-tokenizers: $(VENV)/.huggingface  ## compare the tokens of exported tokenizers in transformers with ours
$(EXCHANGES): build/train_gpt
	@$(PYTHON) python_ref/$(subst -,_,$@).py $(ARGS)

check-layers: $(VENV)/.huggingface  ## compare streams and GatedNorm of the twin with classes of transformers
	@$(PYTHON) python_ref/check_norms.py
	@$(PYTHON) python_ref/check_streams.py

check-pages: venv  ## run the PyTorch lines of the pages, and compare them with the worked examples
	@$(PYTHON) python_ref/check_pages.py

check-markdown: .venv/.markdown  ## check links, tables, formulas and sections of the pages
	@$(PYTHON) python_ref/check_markdown.py

check-pairs: $(VENV)/.huggingface  ## compare encoder-decoder models of the PyTorch twin with those of transformers
	@$(PYTHON) python_ref/check_pairs.py

curves: venv build/train_gpt $(DATA_WRITTEN)  ## train beside PyTorch on DATA, compare the losses
	@$(PYTHON) python_ref/curves.py --binary build/train_gpt --data $(call files,$(DATA)) --out build/curves $(ARGS)

venv: .venv/.python_ref .venv/.report  ## install PyTorch and the other Python packages into .venv/

# One after the other, because two pips would disturb each other. Separate, so that reports do not need PyTorch.
PIP = echo 'pip install -r $<'; $(PYTHON) -m pip install --quiet --disable-pip-version-check -r $<
.venv/.python_ref: python_ref/requirements.txt | .venv/.report
.venv/.huggingface .venv/.gguf: .venv/.%: python_ref/requirements-%.txt | .venv/.report
.venv/.markdown: python_ref/requirements-markdown.txt | $(PYTHON)
build/oldest/.huggingface build/oldest/.gguf: build/oldest/.%: python_ref/requirements-%-oldest.txt | $(PYTHON)
.venv/.python_ref .venv/.huggingface .venv/.gguf .venv/.markdown build/oldest/.huggingface build/oldest/.gguf:
	@$(PIP)
	@touch $@

$(PYTHON):
	@python3 -c 'import venv, ensurepip' 2>/dev/null || dev/setup.sh python
	python3 -m venv $(VENV)
