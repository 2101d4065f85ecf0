package envoy

import (
	"errors"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

func parseAs(t *testing.T, file, text string) *Domain {
	t.Helper()
	d, err := Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSeveralFilesOfADomain: several files are one domain, in which lists of the same descriptor are merged.
func TestSeveralFilesOfADomain(t *testing.T) {
	a := parseAs(t, "a.yaml", "domain: d\ndescriptors:\n- key: path\n  value: /a*\n  descriptors: [{key: x, rate_limit: {unit: day, requests_per_unit: 1}}]\n- {key: only_a, rate_limit: {unit: day, requests_per_unit: 2}}\n")
	b := parseAs(t, "b.yaml", "domain: d\ndescriptors:\n- key: path\n  value: /a*\n  rate_limit: {unit: day, requests_per_unit: 3}\n  descriptors: [{key: y, rate_limit: {unit: day, requests_per_unit: 4}}]\n- {key: path, value: /*, rate_limit: {unit: day, requests_per_unit: 5}}\n")
	other := parseAs(t, "c.yaml", "domain: other\n")
	r := newRig(t, Options{})
	if err := r.service.Reload([]*Domain{a, other, b}); err != nil {
		t.Fatal(err)
	}
	r.want(request("d", 0, "path=/ab,x=1", "only_a=1", "path=/ab", "path=/ab,y=1", "path=/b"), "OK: OK/0 OK/1 OK/2 OK/3 OK/4")
	merged, err := Merge([]*Domain{a, other, b})
	if err != nil || len(merged) != 2 || merged[0].Name() != "d" || merged[0].Rules() != 5 {
		t.Errorf("merged: %v, %v", merged, err)
	}
	if a.Rules() != 2 || b.Rules() != 3 {
		t.Error("the merged domains were modified")
	}
}

func TestConflictsOfFiles(t *testing.T) {
	first := "domain: d\ndescriptors:\n- key: k\n  value: v*\n  descriptors:\n  - {key: x, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	for _, c := range []struct{ second, want string }{
		{"domain: d\ndescriptors:\n- key: k\n  value: v*\n  descriptors:\n  - {key: x, rate_limit: {unit: day, requests_per_unit: 1}}\n",
			"b.yaml:6:5: the descriptor d.k_v*.x has a rate_limit here and in a.yaml:6:5; keep one"},
		{"domain: d\ndescriptors:\n- {key: k, value: v*, share_threshold: true}\n", "b.yaml:3:3: the descriptor d.k_v* has share_threshold here or in a.yaml:3:3"},
		{"domain: d\ncharging: all\n", `b.yaml:2:1: charging: the domain "d" is charged all here and each in a.yaml`},
	} {
		_, err := Merge([]*Domain{parseAs(t, "a.yaml", first), parseAs(t, "b.yaml", c.second)})
		place, found := errors.AsType[*yamlfile.Error](err)
		if !found || place.File != "b.yaml" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

// TestEqualDomains: the position of a rule does not matter, its content does.
func TestEqualDomains(t *testing.T) {
	base := "domain: d\ndescriptors:\n- {key: k, value: a*, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: k, value: b*}\n- {key: l, descriptors: [{key: m}]}\n"
	one := []*Domain{mustParse(t, base)}
	if !Equal(one, []*Domain{parseAs(t, "elsewhere.yaml", "# moved\n\n"+base)}) {
		t.Error("domains that differ in a comment are not equal")
	}
	for _, change := range [][2]string{
		{"domain: d", "domain: e"}, {"domain: d", "domain: d\ncharging: all"}, {"per_unit: 1", "per_unit: 2"}, {"a*", "c*"},
		{"key: m", "key: n"}, {", descriptors: [{key: m}]", ""}, {"- {key: k, value: b*}\n", ""}, {"key: l", "key: o"},
	} {
		if Equal(one, []*Domain{mustParse(t, strings.Replace(base, change[0], change[1], 1))}) {
			t.Errorf("domains with %s in place of %s are equal", change[1], change[0])
		}
	}
}
