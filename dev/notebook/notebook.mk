# The notebook has no outputs in git. It runs in build/notebook/, with the module of the wheel.
NO_COMPILER += .venv/.notebook

notebook: build/train_gpt .venv/.notebook  ## run dev/notebook/first_run.ipynb, and write build/notebook/first_run.html
	@rm -rf build/notebook && mkdir -p build/notebook && cp dev/notebook/first_run.ipynb build/notebook/
	@TRAIN_GPT_PROGRAM='$(CURDIR)/$<' PYTHONPATH='$(CURDIR)/dev/release/python' \
	  $(PYTHON) -m nbconvert --execute --CoalesceStreamsPreprocessor.enabled=True --to html build/notebook/first_run.ipynb

.venv/.notebook: dev/notebook/requirements.txt | $(PYTHON)
	@$(PIP)
	@touch $@
