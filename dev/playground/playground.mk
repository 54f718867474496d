# The playground: layers/ and a little of data/ as WebAssembly, with 4-lane vectors.
PLAYGROUND := playground test-scenes test-playground build/playground/% build/playground.html
NO_COMPILER += $(PLAYGROUND)

ifneq (,$(filter $(PLAYGROUND),$(MAKECMDGOALS)))
include build/playground/config.mk
endif
build/playground/config.mk: dev/setup.sh
	@dev/setup.sh playground --config $@

WASM_OUT := build/playground/wasm
WASM_DATA := $(patsubst %,data/%.cpp,files/json strings/format strings/utf8 options/options \
  options/command_settings options/settings_file options/toml options/train_settings options/values \
  run/generate_text run/schedule run/step_inputs commands/info/model_text corpus/corpus corpus/grammar \
  corpus/grammar_lines text/dataset text/masking text/rows text/spans text/split text/tokens tokenizer/chat_template \
  tokenizer/tokenizer)
WASM_LAYERS := $(filter-out layers/textbook/%,$(sort $(wildcard layers/*/*.cpp)))
WASM_OBJECTS := $(patsubst %.cpp,$(WASM_OUT)/%.o,$(WASM_LAYERS) $(WASM_DATA) \
  $(patsubst %,dev/playground/%.cpp,drawing engine kernels reading wasm))
# LLVM leaves `invoke` out for a target without exceptions, so a throw ends in __cxa_throw of wasm.cpp.
WASM_COMPILE = $(WASM_CXX) --target=wasm32-wasi -msimd128 -std=c++20 -fexceptions -fno-math-errno -fno-trapping-math \
  -ffp-contract=fast -Wall -Wextra -Wno-unknown-pragmas -I. -isystem build/playground/include $(WASM_CXXFLAGS)
WASM_EXPORTS = $(patsubst %,-Xlinker --export=%,__stack_pointer \
  $(shell grep -o 'engine_[a-z_]*' dev/playground/engine.hpp | sort -u))

build/playground/engine.wasm: $(WASM_OBJECTS)
	$(call SAY,link  $@)$(WASM_COMPILE) -mexec-model=reactor $(WASM_EXPORTS) -Wl,--strip-all,-z,stack-size=1048576 \
	  -o $@ $^

# The layers are the loops; the rest runs for a moment.
$(WASM_OUT)/layers/%.o: private WASM_OPTIMIZE := -O3
$(WASM_OUT)/data/%.o $(WASM_OUT)/dev/%.o: private WASM_OPTIMIZE := -Os
$(WASM_OUT)/%.o: %.cpp build/playground/config.mk
	@mkdir -p $(@D)
	$(call SAY,wasm  $<)$(WASM_COMPILE) $(WASM_OPTIMIZE) -MMD -MP -c $< -o $@

-include $(WASM_OBJECTS:.o=.d)

playground: build/playground.html  ## write build/playground.html, a page that trains models in the browser
PAGE_OF_PLAYGROUND := $(wildcard dev/playground/*.js dev/playground/*.html dev/playground/*.css dev/playground/uplot/*)
build/playground.html: build/playground/engine.wasm dev/playground/bundle.py $(PAGE_OF_PLAYGROUND)
	@python3 dev/playground/bundle.py $< $@

test-scenes: build/playground.html  ## run the playground's scenes in a headless browser
	@python3 dev/playground/test_scenes.py $(ARGS)

test-playground:  ## compare the playground's engine with the native one, which has 4-lane vectors; needs node
	+@MAKE='$(MAKE)' dev/playground/test.sh $(ARGS)

# The same engine as a native program. build/native_engine is the one that was built last.
NATIVE_ENGINE := $(patsubst %,$(OUT)/dev/playground/%.o,drawing engine kernels native reading)
build/native_engine: $(OUT)/native_engine FORCE
	@ln -sf $(<:build/%=%) $@
$(OUT)/native_engine: $(NATIVE_ENGINE) $(LIBRARY)
	$(call SAY,link  $@)$(LINK)
-include $(NATIVE_ENGINE:.o=.d)
