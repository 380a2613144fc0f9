# `sam build` calls these targets once per function and layer, with ARTIFACTS_DIR set.

# Parts of the package that never run in Lambda. tests/architecture proves that no handler imports them.
NOT_IN_LAMBDA := cli decide/policyfile install local node

# The value of the template's parameter Architecture.
ARCHITECTURE ?= arm64
# The value of the template's parameter PythonRuntime, without `python`.
PYTHON_VERSION ?= 3.13
# The Python of .venv. Lambda ignores the bytecode of another one without an error, and each cold start compiles again.
MINOR = $(shell $(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

.PHONY: runtime
runtime: setup
	@[ "$(MINOR)" = "$(PYTHON_VERSION)" ] || { echo "the functions run on python$(PYTHON_VERSION), .venv is Python $(MINOR):" \
	  "rm -r .venv and make PYTHON=python$(PYTHON_VERSION) build, or make build PYTHON_VERSION=$(MINOR) and deploy with" \
	  "PythonRuntime=python$(MINOR)" >&2; exit 2; }

PLATFORM_x86_64 := manylinux2014_x86_64
PLATFORM_arm64 := manylinux2014_aarch64

# Lambda's code folder is read-only, so a file that is not compiled here is compiled again at every cold start. The hash
# is not checked at import, because files in a zip have no useful times. Paths are those of Lambda on every build host.
COMPILE = $(BIN)/python -m compileall -q --invalidation-mode unchecked-hash

build-%Function:
	@cp -R functions/$$(echo $* | tr '[:upper:]' '[:lower:]')/. "$(ARTIFACTS_DIR)"
	@cp -R src/faultbridge "$(ARTIFACTS_DIR)/faultbridge"
	@cd "$(ARTIFACTS_DIR)/faultbridge" && rm -rf $(NOT_IN_LAMBDA)
	@find "$(ARTIFACTS_DIR)" -name __pycache__ -prune -exec rm -rf {} +
	@$(COMPILE) -s "$(ARTIFACTS_DIR)" -p /var/task "$(ARTIFACTS_DIR)"

# `sam build` does not read DefinitionUri, but `sam deploy` does, so the file must exist after the build.
build-ReplacementFunction: infra/statemachines/replacement.asl.json

# Layers contain prebuilt wheels for Lambda's platform, independent of the platform of the build host.
LAYER_OF_DependenciesLayer := lambda
LAYER_OF_KubernetesLayer := kubernetes
LAYER_OF_ConsoleLayer := console

WHEELS = $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --require-hashes \
  --only-binary :all: --implementation cp --python-version $(PYTHON_VERSION)

build-%Layer:
	@$(WHEELS) --platform $(PLATFORM_$(ARCHITECTURE)) --target "$(ARTIFACTS_DIR)/python" \
	  -r requirements/$(LAYER_OF_$*Layer).txt
	@rm -rf "$(ARTIFACTS_DIR)/python/bin"
	@$(COMPILE) -s "$(ARTIFACTS_DIR)" -p /opt "$(ARTIFACTS_DIR)"

.PHONY: layer-wheels
layer-wheels: setup ## check that each package of each layer has wheels for arm64 and for x86_64
	@for layer in lambda kubernetes console; do for platform in $(PLATFORM_arm64) $(PLATFORM_x86_64); do \
	  $(WHEELS) --dry-run --platform $$platform --target build/wheels -r requirements/$$layer.txt \
	  || { echo "no wheels for $$platform: requirements/$$layer.txt" >&2; exit 1; }; done; done
