# Shared by cluster/demo, tests/run and others: `. cluster/setup.sh`, standing in the checkout.
# It makes what is missing and says in one line what it cannot make. It uses bash.

# The interpreter for the virtual environment; PYTHON=... chooses another one.
goblin_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "missing: Python 3.11 or newer (set PYTHON to its path)" >&2
    return 1
}

# Install Debian packages as root, else say in one line which are missing.
goblin_apt() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing: $* (on Debian, as root: apt-get install $*)" >&2
        return 1
    fi
    echo "installing $* with apt-get" >&2
    local quiet=(-qq -o=Dpkg::Use-Pty=0)
    # A machine that was never updated has no package lists, so a failed install tries that first.
    DEBIAN_FRONTEND=noninteractive apt-get install "${quiet[@]}" -y --no-install-recommends "$@" >&2 ||
        { apt-get update "${quiet[@]}" >&2 &&
            DEBIAN_FRONTEND=noninteractive apt-get install "${quiet[@]}" -y \
                --no-install-recommends "$@" >&2; }
}

# goblin_venv EXTRA: .venv in the checkout with this project and the extra `demo` or `test`.
# Done before and nothing changed since in pyproject.toml: nothing to do, and no network needed.
goblin_venv() {
    local extra=$1 python want stamp
    want=$(cksum <pyproject.toml)
    stamp=.venv/goblin-$extra
    if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
        return 0
    fi
    if ! [ -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        python=$(goblin_python) || return 1
        # Debian ships Python without this part of its standard library.
        "$python" -c 'import ensurepip, venv' 2>/dev/null || goblin_apt python3-venv || return 1
        echo "making .venv with $python" >&2
        "$python" -m venv --clear .venv || return 1
    fi
    echo "installing this project and its $extra packages into .venv" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$extra]" || return 1
    printf '%s\n' "$want" >"$stamp"
}

# redis-server and redis-cli, which some tests and the benchmark compare with.
goblin_redis() {
    local missing=()
    command -v redis-server >/dev/null || missing+=(redis-server)
    command -v redis-cli >/dev/null || missing+=(redis-tools)
    [ ${#missing[@]} = 0 ] || goblin_apt "${missing[@]}"
}

