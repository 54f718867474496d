NO_COMPILER += data-archive

paper: build/train_gpt .venv/.paper  ## write build/paper/: the paper with its tables, figures and numbers, and a PDF
	@$(PYTHON) dev/paper/paper.py

data-archive: | $(PYTHON)  ## pack the stored runs of studies and track into build/archive/, with their hashes
	@$(PYTHON) dev/paper/archive.py

.venv/.paper: dev/paper/requirements.txt | .venv/.report
	@$(PIP) && touch $@ || echo 'pip could not: there will be no PDF'
