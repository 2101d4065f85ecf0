package generate

import (
	"encoding/json"
	"testing"
)

func TestShapeNames(t *testing.T) {
	names := []string{"mixed", "steady", "diurnal", "zipf", "edges", "scraper", "botnet"}
	all := Shapes()
	if len(all) != len(names) || all[0] != Mixed {
		t.Fatalf("the shapes are %v, want %v", all, names)
	}
	abouts := map[string]bool{}
	for i, s := range all {
		if s.String() != names[i] {
			t.Errorf("shape %d is called %q, want %q", i, s, names[i])
		}
		if parsed, err := ParseShape(names[i]); parsed != s || err != nil {
			t.Errorf("ParseShape(%q) = %v, %v", names[i], parsed, err)
		}
		if len(s.About()) < 20 || len(s.About()) > 100 || abouts[s.About()] {
			t.Errorf("%v is described as %q: want a unique line", s, s.About())
		}
		abouts[s.About()] = true
	}
}

func TestUnknownShape(t *testing.T) {
	const want = `generate: Shape: must be one of mixed, steady, diurnal, zipf, edges, scraper, botnet, not "Zipf"`
	if _, err := ParseShape("Zipf"); err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if s := Shape(7); s.String() != "unknown(7)" || s.About() != "unknown(7)" {
		t.Errorf("the shape 7 is %q, %q", s, s.About())
	}
}

func TestShapeAsText(t *testing.T) {
	text, err := json.Marshal(map[string]Shape{"shape": Botnet})
	if string(text) != `{"shape":"botnet"}` || err != nil {
		t.Errorf("written as %s, %v, want {\"shape\":\"botnet\"}", text, err)
	}
	read := map[string]Shape{}
	if err := json.Unmarshal([]byte(`{"shape":"edges"}`), &read); err != nil || read["shape"] != Edges {
		t.Errorf("read as %v, %v, want edges", read, err)
	}
	if err := json.Unmarshal([]byte(`{"shape":"edge"}`), &read); err == nil {
		t.Errorf("got %v from an unknown name, want an error", read)
	}
}
