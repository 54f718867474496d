# The book contains all Markdown of the project, and the playground if build/playground.html exists.
NO_COMPILER += book test-book

book: .venv/.book  ## write build/book/, the course as a site that needs no network
	@rm -rf build/book
	@$(PYTHON) -m sphinx --quiet --fresh-env -n -W --keep-going -d build/book-doctrees -c dev/book . build/book
	@echo build/book/index.html

test-book: book  ## check every link of the book, and look at its pages in a browser
	@$(PYTHON) dev/book/test_book.py

.venv/.book: dev/book/requirements.txt | $(PYTHON)
	@$(PIP)
	@touch $@
