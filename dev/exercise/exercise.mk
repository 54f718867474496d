# These need only a compiler, so there is no configuration (dev/exercise/README.md).
NO_COMPILER += exercise check-exercise

exercise:  ## begin exercise LAYER=norm, or list all exercises
	@FORCE='$(FORCE)' HINT='$(HINT)' dev/exercise/exercise.sh $(if $(LAYER),begin $(LAYER)) || [ $$? = 1 ]

check-exercise:  ## check exercise LAYER=norm, or the newest
	@CXX='$(NAMED_CXX)' dev/exercise/exercise.sh check $(LAYER) || [ $$? != 2 ]
