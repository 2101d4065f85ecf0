package config

import (
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

// overrides reads other limits for some keys. Keys are not shown in errors, since they may identify a person.
func (r *reader) overrides(e yamlfile.Field) (overrides []policy.Override) {
	patterns := 0
	for _, item := range r.items(e, "mappings with key or keys, and limits") {
		if !yamlfile.IsMapping(item.Value) {
			r.Problems.Addf(item.At, "an override must be a mapping with key or keys, and limits, not %s", yamlfile.Describe(item.Value))
			continue
		}
		before := len(r.Problems)
		o := r.override(item)
		if len(r.Problems) > before {
			continue
		}
		if o.Pattern {
			patterns++
			if err := checkPattern(o.Key, patterns); err != nil {
				r.Problems.Addf(item.At, "keys: %w", err)
				continue
			}
		}
		if o.Unlimited && o.Pattern && isEveryKey(o.Key) {
			r.warnings.Addf(item.At, "the override lifts the limits of every key; name some keys, or remove the policy")
		}
		r.namedKeys[len(r.namedKeys)-1].override = item.At
		overrides = append(overrides, o)
	}
	return overrides
}

// override reads one override.
func (r *reader) override(item yamlfile.Field) (o policy.Override) {
	given := overrideTable.read(r, item.Value, "an override", &o)
	switch {
	case given.has("key") && given.has("keys"):
		r.Problems.Addf(item.At, "the override has key and keys; leave one out")
	case !given.has("key") && !given.has("keys"):
		r.Problems.Addf(item.At, "the override has no key; add key: NAME, or keys: with a pattern such as team-*")
	}
	r.checkLimited(item, "override", given, o.Unlimited)
	return o
}

// checkLimited checks that an override or a plan either has limits or is unlimited.
func (r *reader) checkLimited(item yamlfile.Field, what string, given given, unlimited bool) {
	switch e, asked := given["unlimited"]; {
	case given.has("limits") && unlimited:
		r.Problems.Addf(item.At, "the %s has limits and is unlimited; leave one out", what)
	case !given.has("limits") && !unlimited && !(asked && e.Value == nil): // otherwise reported already
		r.Problems.Addf(item.At, "the %s has no limits; add limits: [1000/1m], say, or unlimited: true", what)
	}
}

// overrideKey reads a key or a pattern.
func (r *reader) overrideKey(e yamlfile.Field) string {
	text, ok := r.Text(e)
	starred := strings.Contains(text, "*") && !strings.HasPrefix(text, "=")
	r.namedKeys = append(r.namedKeys, namedKey{at: e.ValueAt(), field: e.Name, key: text})
	switch {
	case !ok:
	case e.Name == "key" && starred:
		r.Problems.Addf(e.ValueAt(), "key: contains a *; write keys: for a pattern, in which * is any run of bytes")
	case e.Name == "keys" && !starred:
		r.Problems.Addf(e.ValueAt(), "keys: contains no *, which is any run of bytes; write key: for a single key")
	}
	return text
}

// maxOverrideBytes is the maximum size of all files of overrides that a file names.
const maxOverrideBytes = 4 * yamlfile.MaxSize

// overridesFile reads overrides from a file of their own.
func (r *reader) overridesFile(e yamlfile.Field) []policy.Override {
	path := r.path(e)
	if path == "" {
		return nil
	}
	r.others = append(r.others, path)
	text, err := yamlfile.Read(path)
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "%s: the file %s: %w", e.Name, errtext.Quote(path), reasonOf(err))
		return nil
	}
	if r.otherBytes += len(text); r.otherBytes > maxOverrideBytes {
		r.Problems.Addf(e.ValueAt(), "%s: the files of overrides have more than %d MB together", e.Name, maxOverrideBytes>>20)
		return nil
	}
	from := &reader{name: path, opts: r.opts}
	r.overridesFrom, r.files = from, append(r.files, from)
	root, at := from.Document(text, "write a list of overrides, such as - {key: alice, limits: [500/1m]}", `put all overrides into one, and remove this "---"`)
	if root == nil {
		return nil
	}
	return from.overrides(yamlfile.Field{Name: "overrides", At: at, Value: root})
}
