package config

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/httplimit"
)

// A policy's own texts come first, and then those of the file; the output of Format is read as the same.
func TestRefusal(t *testing.T) {
	file, err := Parse("f", []byte(`
refusal: {type: https://example.com/limits, detail: "Wait {retry_after} s."}
policies:
  a: {limits: [1/s]}
  b: {limits: [1/s], refusal: {title: Slow down, detail: "{{{policy}}} ü", status: 402}}
`))
	if err != nil {
		t.Fatal(err)
	}
	opts, err := HTTP(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []httplimit.Refusal{
		{Type: "https://example.com/limits", Detail: "Wait {retry_after} s."},
		{Type: "https://example.com/limits", Title: "Slow down", Detail: "{{{policy}}} ü", Status: 402},
	}
	printed := Format(file)
	again, err := Parse("again", printed)
	if err != nil {
		t.Fatalf("%v in\n%s", err, printed)
	}
	for i := range want {
		if got := opts.Policies[i].Refusal; got != want[i] {
			t.Errorf("policy %d: got %+v, want %+v", i, got, want[i])
		}
		if got := again.refusalOf(&again.Policies[i]); got != want[i] {
			t.Errorf("policy %d, formatted and read again: got %+v, want %+v", i, got, want[i])
		}
	}
	if text := string(printed); !strings.Contains(text, "\n    refusal:\n      type: \"https://example.com/limits\"\n      title: \"Slow down\"\n") {
		t.Errorf("got\n%s", text)
	}
}
