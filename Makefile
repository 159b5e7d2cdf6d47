# Short names for what CMake and its presets do; `make help` lists them.
#
# Set-up (apt) happens in `demo`, `test`, `bench` and the other checks, never in plain `make`.

BUILD := build
JOBS ?= $(shell nproc)
# One more than there are processors, as some wait more than they compute.
TESTS := $(shell expr $(JOBS) + 1)
# Three tests at a time on two cores: threads that wait must sleep, not spin. The leak checker takes
# the thread-local data of threads that libraries started for something else, and crashes, unless
# it leaves __tls_get_addr alone. 32 MB of what was freed are watched for later use, not 256: that much
# was touched anew again and again, up to an eighth of a test's time.
CTEST := OMP_WAIT_POLICY=passive ASAN_OPTIONS=intercept_tls_get_addr=0:quarantine_size_mb=32 ctest --output-on-failure --no-tests=error --timeout 900

# glibc's malloc keeps what is freed, and asks for huge pages: tests make and drop the same large arrays, and page
# faults took up to half of their time. What gives memory back does so by itself (malloc_trim), and is still tested.
KEEP_FREED := MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=16777216 \
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1

# What runs under sanitizers alone. GRAFT_TEST=full: not what the plain build would only repeat.
# PLAIN: all but the programs of those.
ONCE := emulated|sanitized
PLAIN := plain_full
ONCE_SAID := tests labelled "emulated" (CUDA kernels played on the host) and "sanitized"
ifneq ($(GRAFT_TEST),full)
ONCE := $(ONCE)|once
PLAIN := plain
ONCE_SAID := $(ONCE_SAID), and "once" (logic of engine, nodes, prompts and host; GRAFT_TEST=full runs it plain as well)
endif

.DEFAULT_GOAL := build
.PHONY: help setup build all demo serve test test-dev bench bench-peers fuzz tsan check-aarch64 format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building and testing need, if something is missing
	@tools/setup.sh

# A configured folder keeps its options: `make` after `make test` builds nothing twice.
$(BUILD)/build.ninja:
	@command -v cmake > /dev/null || { echo 'cmake is missing; "make setup" installs it' >&2; exit 1; }
	cmake --preset release $(CMAKE_ARGS)

build: $(BUILD)/build.ninja ## the programs and plugins, into build/bin and build/lib/graft
	cmake --build $(BUILD) -j $(JOBS) --target programs

all: $(BUILD)/build.ninja ## also the tests and benches
	cmake --build $(BUILD) -j $(JOBS)

demo: setup ## draw a picture with the model in models/checkpoints
	@$(MAKE) --no-print-directory build
	$(BUILD)/bin/graft run workflows/txt2img.json --models models --output output
	@echo "The picture: $$(ls -t $(CURDIR)/output/txt2img_*.png | head -n 1)"

# SERVE_ARGS: further options, for example SERVE_ARGS="--port 8189".
serve: setup ## the node editor and the ComfyUI protocol at http://127.0.0.1:8188
	@$(MAKE) --no-print-directory build
	@echo 'Open the address below in a browser; Ctrl+C ends the server.'
	$(BUILD)/bin/graft serve --models models --input input --output output $(SERVE_ARGS)

test: setup ## build with warnings as errors, run all tests, plain and under ASan and UBSan
	@tools/setup.sh browser || echo 'Without Chromium the node editor is not tried in a browser.'
	cmake --preset release -DGRAFT_WERROR=ON $(CMAKE_ARGS)
	cmake --build $(BUILD) -j $(JOBS) --target $(PLAIN)
	@$(MAKE) --no-print-directory test-dev
	@echo 'skipped here, as they have just run under sanitizers: $(ONCE_SAID)'
	$(KEEP_FREED) $(CTEST) --test-dir $(BUILD) -j $(TESTS) --label-exclude '$(ONCE)'

# Leaks count as failures. The plain tests of `make test` come last: their summary is the last line.
# oneDNN 2.6.3 looks one value behind a table of its own while it makes kernels with AMX. That does no
# harm but where memory ends there, which it does under ASan now and then: AMX is for the plain tests.
test-dev: setup ## the tests under ASan and UBSan only, in build/dev
	cmake --preset dev $(CMAKE_ARGS)
	cmake --build $(BUILD)/dev -j $(JOBS)
	ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 $(CTEST) --test-dir $(BUILD)/dev -j $(TESTS)

tsan: setup ## the tests under ThreadSanitizer, in build/tsan
	cmake --preset tsan $(CMAKE_ARGS)
	cmake --build $(BUILD)/tsan -j $(JOBS)
	$(CTEST) --test-dir $(BUILD)/tsan -j $(TESTS)

# CHECK_ARGS: arguments of ctest, for example CHECK_ARGS="-R kernels".
check-aarch64: setup ## build for AArch64 and run the tests under qemu, in build/aarch64
	@tools/setup.sh aarch64
	tools/check-aarch64.sh $(BUILD)/aarch64 $(CHECK_ARGS)

bench: setup ## time kernels, models and whole runs; figures go to build/bench.json
	@$(MAKE) --no-print-directory all
	bench/run.sh $(BUILD)

PEERS_MODEL ?= $(BUILD)/models/checkpoints/sd15.safetensors
# PEERS_ARGS: further options, for example PEERS_ARGS="--rounds 15 --only f32_vs_ort".
bench-peers: setup ## time PyTorch, ONNX Runtime and ggml beside Graft, where they are installed
	@command -v python3 > /dev/null || { echo 'python3 is missing: apt-get install python3' >&2; exit 1; }
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS) --target graft-bench graft-make-model
	@mkdir -p $(dir $(PEERS_MODEL))
	@[ -e $(PEERS_MODEL) ] || $(BUILD)/bin/graft-make-model sd15 $(PEERS_MODEL)
	python3 bench/peers/compare.py $(BUILD) $(PEERS_MODEL) $(PEERS_ARGS)

FUZZ_SECONDS ?= 60
fuzz: ## fuzz every parser for FUZZ_SECONDS each (clang), in build/fuzz
	@tools/setup.sh fuzz
	cmake --preset fuzz $(CMAKE_ARGS)
	cmake --build $(BUILD)/fuzz -j $(JOBS) --target fuzzers
	tests/fuzz/run.sh $(BUILD)/fuzz $(FUZZ_SECONDS)

format: ## clang-format on all C files
	@tools/setup.sh format
	git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

clean: ## remove build/
	rm -rf $(BUILD)
