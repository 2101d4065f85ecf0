package envoy

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
)

// Values in files for the original have the same meaning here.
func TestValuesOfTheOriginal(t *testing.T) {
	for word, want := range map[string]bool{
		"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "true": true, "True": true, "TRUE": true, "on": true, "On": true, "ON": true,
		"n": false, "N": false, "no": false, "No": false, "NO": false, "false": false, "False": false, "FALSE": false, "off": false, "Off": false, "OFF": false,
	} {
		d := mustParse(t, head+"  value: 'a*'\n  shadow_mode: "+word+"\n  quota_mode: "+word+"\n  share_threshold: "+word+"\n  detailed_metric: "+word+
			"\n  rate_limit: {unit: day, requests_per_unit: 5, count_refused: "+word+"}\n")
		n := d.root.wild["k"][0]
		if n.rule.shadow != want || n.rule.quotaMode != want || n.shared != want || n.rule.limit.CountRefused != want {
			t.Errorf("%s: got %+v, shared %v, want %v", word, n.rule, n.shared, want)
		}
		d = mustParse(t, head+"  rate_limit: {unlimited: "+word+map[bool]string{false: ", unit: day, requests_per_unit: 1"}[want]+"}\n")
		if got := d.root.exact[pair{"k", ""}].rule.unlimited; got != want {
			t.Errorf("unlimited: %s: got %v, want %v", word, got, want)
		}
	}
	for text, want := range map[string]int64{"0": 0, "7": 7, "1_000": 1000, "0x10": 16, "0xFF": 255, "0b101": 5, "0o17": 15, "+5": 5, "4_294_967_295": 4294967295} {
		d := mustParse(t, head+"  rate_limit: {unit: day, requests_per_unit: "+text+"}\n")
		if got := d.root.exact[pair{"k", ""}].rule.limit.Quota; got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
	d := mustParse(t, "domain: !!str 5\ndescriptors:\n- key: !!str yes\n  value: !!str 0x10\n  rate_limit: {unit: !!str day, requests_per_unit: 1, name: on}\n")
	if d.name != "5" || d.root.exact[pair{"yes", "0x10"}] == nil || d.root.exact[pair{"yes", "0x10"}].rule.name != "on" {
		t.Errorf("texts: %q, %v", d.name, d.root.exact)
	}
}

func TestMetadataOfTheOriginal(t *testing.T) {
	d := mustParse(t, head+"  metadata: {a: yes, b: 'yes', c: Off, d: 0x10, e: 1_000, f: !!str 5, g: [on, y, 1_0.5], h: yesterday, i: -3, j: ~}\n"+
		"  rate_limit: {unit: day, requests_per_unit: 1}\n")
	got := protojson.Format(d.root.exact[pair{"k", ""}].rule.metadata)
	want := mustParse(t, head+"  metadata: {a: true, b: 'yes', c: false, d: 16, e: 1000, f: '5', g: [true, true, 10.5], h: 'yesterday', i: -3, j: null}\n"+
		"  rate_limit: {unit: day, requests_per_unit: 1}\n")
	if wanted := protojson.Format(want.root.exact[pair{"k", ""}].rule.metadata); got != wanted {
		t.Errorf("got %s\nwant %s", got, wanted)
	}
}
