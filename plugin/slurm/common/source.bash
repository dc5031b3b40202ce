# For the builds of plugins for slurmctld: which Slurm is installed, where its plugins are, and its source.
# Sourced, not run; the caller has `set -euo pipefail`.

die() { echo "build: $*" >&2; exit 2; }
# The comment at the head of a script, its first line left out.
usage() { sed -n '2,/^set/p' "$1" | sed '$d;s/^# \{0,1\}//' >&2; exit 2; }

common=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# installed PLUGIN: sets `installed`, `plugins`, and for a package of Debian its source's `package` and `version`.
installed() {
    local path
    if [[ -n ${SLURM_SOURCE:-} && -n ${SLURM_PLUGINS:-} ]]; then
        plugins=$SLURM_PLUGINS
        installed=$(slurmctld -V | sed -nE 's/^slurm[a-z-]* ([0-9.]+).*/\1/p')
        [[ -n $installed ]] || die "slurmctld -V says no version"
    else
        read -r package version < <(dpkg-query -W -f='${source:Package} ${source:Version}\n' slurmctld 2>/dev/null) ||
            die "slurmctld is not installed as a Debian package: set SLURM_SOURCE and SLURM_PLUGINS"
        installed=${version%%-*}
        path=$(dpkg -L slurm-wlm-basic-plugins | grep "/$1\.so\$") || die "no $1.so is installed"
        plugins=${path%/*}
    fi
    [[ -f $plugins/$1.so ]] || die "$plugins has no $1.so"
}

# Fetches the source of the package into a directory.
fetch() {
    local apt=$1/apt
    mkdir -p "$apt"/{lists/partial,cache/archives/partial}
    # The places that binary packages come from have the source too.
    {
        sed -nE 's/^deb (\[[^]]*\] )?([^#]*)/deb-src \1\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
        for file in /etc/apt/sources.list.d/*.sources; do
            [[ -f $file ]] && awk '
                function flush(  u, s, n, m, i, j) {
                    n = split(uris, u); m = split(suites, s)
                    for (i = 1; i <= n; i++) for (j = 1; j <= m; j++)
                        print "deb-src " (key ? "[signed-by=" key "] " : "") u[i], s[j], components
                    uris = suites = components = key = ""
                }
                /^URIs:/ { $1 = ""; uris = $0 } /^Suites:/ { $1 = ""; suites = $0 }
                /^Components:/ { $1 = ""; components = $0 } /^Signed-By: *\// { key = $2 }
                /^[[:space:]]*$/ { flush() } END { flush() }' "$file"
        done
    } 2>/dev/null | grep -i debian | sort -u >"$apt/sources.list"
    local options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    (cd "$1" && apt-get "${options[@]}" source --only-source "$package=$version" >/dev/null 2>&1) && return
    # A mirror may have lost Debian's part of an update. The headers are upstream's, whose file has a checksum too.
    local uri file size sum
    read -r uri file size sum < <(apt-get "${options[@]}" source --only-source --print-uris "$package=$version" |
        tr -d "'" | grep '\.orig\.tar\.') || return
    echo "build: Debian's part of the source cannot be had, upstream's is taken" >&2
    /usr/lib/apt/apt-helper "${options[@]}" download-file "$uri" "$1/$file" "$sum" >/dev/null &&
        mkdir "$1/$package-$installed" && tar -xf "$1/$file" --strip-components 1 -C "$1/$package-$installed"
}

# Sets `source` to a configured tree of the installed version.
configured_source() {
    local cache work tree configured
    source=${SLURM_SOURCE:-}
    if [[ -z $source ]]; then
        cache=${XDG_CACHE_HOME:-$HOME/.cache}/sarouter/slurm-$version
        source=$cache/source
        if [[ ! -f $source/config.h ]]; then
            mkdir -p "$cache"
            work=$(mktemp -d "$cache/fetch.XXXXXX")
            # shellcheck disable=SC2064
            trap "rm -rf '$work'" EXIT
            fetch "$work" || die "the source of $package $version cannot be had"
            tree=$(echo "$work"/"$package"-*/)
            [[ -x $tree/configure ]] || die "apt-get source left no configure in $tree"
            (cd "$tree" && ./configure --disable-dependency-tracking \
                --disable-debug --enable-multiple-slurmd >"$cache/configure.log" 2>&1) ||
                die "configure failed: $cache/configure.log"
            # Whoever was faster has the same.
            mv -T "${tree%/}" "$source" 2>/dev/null || [[ -f $source/config.h ]]
        fi
    fi
    configured=$(sed -nE 's/^#define SLURM_VERSION_STRING "([^"-]*).*/\1/p' "$source/config.h" "$source/slurm/slurm_version.h" 2>/dev/null | head -1)
    [[ $configured == "$installed" ]] || die "the source is Slurm ${configured:-of no version}, installed is $installed: not built"
}

# shadow OUTDIR PLUGIN FILE.c: compiles the shadow of a stock plugin, under its name.
shadow() {
    mkdir -p "$1"
    # Functions of slurmctld are looked up when they are called: slurmd and clients load topology plugins too.
    # shellcheck disable=SC2086
    ${CC:-cc} ${CFLAGS:--O2 -g} -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -fPIC -shared -fvisibility=hidden \
        -DSLURM_PLUGIN_DEBUG=0 -isystem "$source" -I"$common" \
        -o "$1/.$2.so.$$" "$3" "$common/prefer.c" "$common/ask.c" \
        -Wl,--no-as-needed -L"$plugins" -l:"$2.so" -Wl,-rpath,"$plugins" \
        -Wl,-z,lazy -Wl,--unresolved-symbols=ignore-all -pthread
    mv "$1/.$2.so.$$" "$1/$2.so"
    echo "$1/$2.so for Slurm $installed"
}
