NO_COMPILER += uninstall dist deb wheel

PREFIX ?= /usr/local
install: $(OUT)/train_gpt  ## install below PREFIX=/usr/local; MARCH=x86-64-v3 for other processors than this one
	@dev/release/install.sh $< '$(DESTDIR)$(PREFIX)'

uninstall:  ## remove what install put below PREFIX=/usr/local
	@dev/release/install.sh --remove '$(DESTDIR)$(PREFIX)'

dist:  ## write build/dist/: static Linux programs for x86-64-v3 and -v4, and the sources, for a release
	+@MAKE='$(MAKE)' dev/release/dist.sh

deb:  ## write build/train-gpt_VERSION_amd64.deb, a Debian package
	+@MAKE='$(MAKE)' dev/release/deb.sh

wheel: dist .venv/.release  ## write the wheel for pip to build/dist/, and test it
	@dev/release/wheel.sh $(PYTHON)

test-module: build/train_gpt .venv/.release  ## test the Python module of the wheel
	@TRAIN_GPT_PROGRAM='$(CURDIR)/$<' PYTHONPATH='$(CURDIR)/dev/release/python' \
	  $(PYTHON) dev/release/test_module.py $(ARGS)

.venv/.release: dev/release/requirements.txt | $(PYTHON)
	@$(PIP)
	@touch $@

# ld warns of dlopen in libgomp. libgomp calls it for code that runs on accelerators, of which train_gpt has none.
build/dist/train_gpt-$(MARCH): $(OUT)/train_gpt.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call SAY,link  $@)$(LINK) -static -s

build/deb/train_gpt-$(MARCH): $(OUT)/train_gpt.o $(LIBRARY)
	@mkdir -p $(@D)
	$(call SAY,link  $@)$(LINK) -s
