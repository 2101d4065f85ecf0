package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/store"
)

// understood returns the file that Parse reads from the output of Format: with all defaults written out, and passwords masked.
func understood(f *File) *File {
	claims := *f
	claims.Service.Store = errtext.Redact(cmp.Or(f.Service.Store, "memory:"))
	claims.Service.StoreTimeout = cmp.Or(f.Service.StoreTimeout, 100*time.Millisecond)
	claims.Service.Failure = cmp.Or(f.Service.Failure, store.FailLocal)
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
		for _, o := range p.Overrides {
			if o.Unlimited != (len(o.Limits) == 0) || o.Pattern != strings.Contains(o.Key, "*") {
				t.Fatalf("override with neither or both of limits and unlimited: %+v", o)
			}
			checkLimits(t, o.Limits)
		}
		for _, prefix := range slices.Concat(p.Allow.Addresses, p.Block.Addresses, f.Service.TrustedProxies) {
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
		bound, err := adapter.Bind("", l)
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
		if want := understood(file); err != nil || !reflect.DeepEqual(again.Policies, want.Policies) || !reflect.DeepEqual(again.Service, want.Service) {
			t.Fatalf("was   %+v\nagain %+v, %v", file, again, err)
		}
	})
}
