package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config/errtext"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// understood returns the file that Parse reads from the output of Format: with all defaults written out, and passwords masked.
func understood(f *File) *File {
	claims := *f
	claims.Service.Store = errtext.Redact(cmp.Or(f.Service.Store, "memory:"))
	claims.Service.StoreTimeout = cmp.Or(f.Service.StoreTimeout, 100*time.Millisecond)
	claims.Service.Optimism = cmp.Or(f.Service.Optimism, 10)
	claims.Service.Failure = cmp.Or(f.Service.Failure, "open")
	groups := &claims.Service.AddressGroups
	groups.V4, groups.V6 = cmp.Or(groups.V4, 32), cmp.Or(groups.V6, 64)
	if len(f.Policies) == 1 {
		claims.Service.Default = f.Policies[0].Name
	}
	claims.Policies = slices.Clone(f.Policies)
	for i := range claims.Policies {
		p := &claims.Policies[i]
		p.Failure = cmp.Or(p.Failure, claims.Service.Failure)
		if p.Name == "default" && f.Service.Default == "" {
			claims.Service.Default = "default"
		}
	}
	return &claims
}

// checkFile checks invariants of every accepted file.
func checkFile(t *testing.T, f *File) {
	t.Helper()
	names := map[string]bool{}
	for _, p := range f.Policies {
		if p.Name == "" || strings.ContainsFunc(p.Name, notInName) || names[p.Name] {
			t.Fatalf("empty or duplicate policy name %q", p.Name)
		}
		names[p.Name] = true
		if p.Key.IsZero() || len(p.Limits) == 0 {
			t.Fatalf("policy without key or limits: %+v", p)
		}
		checkLimits(t, p.Limits)
		checkLimits(t, p.Candidate)
		for _, o := range p.Overrides {
			if o.Unlimited != (len(o.Limits) == 0) || o.Pattern != strings.Contains(o.Key, "*") {
				t.Fatalf("override with neither or both of limits and unlimited: %+v", o)
			}
			checkLimits(t, o.Limits)
		}
		for _, prefix := range slices.Concat(p.Allow.Addresses, p.Deny.Addresses, f.Service.TrustedProxies) {
			if prefix != prefix.Masked() || !prefix.IsValid() || prefix.Addr().Is4In6() {
				t.Fatalf("%v is not in canonical form", prefix)
			}
		}
		if found, err := f.Policy(p.Name); err != nil || found.Name != p.Name {
			t.Fatalf("Policy(%q): got %v, %v", p.Name, found, err)
		}
	}
	if len(f.Policies) == 0 {
		t.Fatal("a file without policies is accepted")
	}
}

// checkLimits checks invariants of all limits that are counted together.
func checkLimits(t *testing.T, limits []slidegate.Limit) {
	t.Helper()
	addresses := map[string]bool{}
	for _, l := range limits {
		bound, err := slidegate.Bind("", l)
		if err != nil || addresses[bound.Prefix()] {
			t.Fatalf("invalid limit, or shared counts: %+v, %v", limits, err)
		}
		addresses[bound.Prefix()] = true
	}
}

func FuzzParse(f *testing.F) {
	for _, bad := range slices.Concat(badFiles, badServiceFiles) {
		f.Add([]byte(bad.text))
	}
	for name, good := range goodFiles(f) {
		f.Log(name)
		f.Add(good)
	}
	f.Add([]byte("policies:\n  a: &a\n    key: &k user\n    limits: &l [&one 5/1m, 7/1h]\n  b: *a\n  c: {key: *k, limits: *l}\n  d: {limits: [*one]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4096 {
			return // large files have their own test
		}
		file, err := Parse("f.yaml", text)
		if err != nil {
			lines := strings.Split(err.Error(), "\n")
			if file != nil || len(lines) > yamlfile.MaxProblems+1 || !strings.HasPrefix(lines[0], "f.yaml:") {
				t.Fatalf("got %+v with error %v", file, err)
			}
			return
		}
		checkFile(t, file)
		again, err := Parse("again.yaml", Format(file))
		if err != nil || !reflect.DeepEqual(again, understood(file)) {
			t.Fatalf("was   %+v\nagain %+v, %v", file, again, err)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("user", "-", "")
	f.Add("{user} {path}", "a b", "%2D")
	f.Add("tenant/{header:x-tenant}", "%252D", "")
	f.Add("{{{user}-{field:a.b}}}", "-", "x-y")
	f.Fuzz(func(t *testing.T, text, one, other string) {
		template, err := ParseTemplate(text)
		if err != nil {
			return
		}
		if again, err := ParseTemplate(template.String()); err != nil || !reflect.DeepEqual(again, template) {
			t.Fatalf("%q: got %+v, %v from its own text", template, again, err)
		}
		values := make([][]byte, len(template.fields))
		for i := range values {
			values[i] = [][]byte{[]byte(one), []byte(other), nil}[i%3]
		}
		key := string(template.AppendKey(nil, values))
		if got, err := readKey(template, key); err != nil || !sameValues(got, values) {
			t.Fatalf("%q of %q: got key %q, which reads as %q, %v", template, values, key, got, err)
		}
	})
}

func FuzzCost(f *testing.F) {
	for _, text := range []string{"1", "0", "1_000", "-1", "bytes", "field:a.b", "010"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cost, err := ParseCost(text)
		if err != nil {
			return
		}
		if again, err := ParseCost(cost.String()); err != nil || again != cost {
			t.Fatalf("%q: got text %q, which reads as %v, %v", text, cost, again, err)
		}
		if units, ok := cost.Fixed(); ok && (units < 0 || units > maxCost) {
			t.Fatalf("%q: got cost %d", text, units)
		}
	})
}
