package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
)

const smallCSV = `section,name,lines,requests,filtered,unreadable,key_missing,admitted,refused,keys_touched,units_admitted,units_refused,highest,longest_lockout_us,wrong_admitted,wrong_refused,state_bytes,live_keys,quota
read,"'- JSON lines, zstd",2012,2000,10,2,3,,,,,,,,,,,,
outcome,,,2000,,,,1699,301,2,3398,602,199,90000000,,,,,
top,user-7,,1500,,,,,300,,,,,90000000,,,,,
top,a\nb,,10,,,,,1,,,,,350000,,,,,
limits,10/1s,,,,,,,1,,,,10,,0,0,72,3,
limits,100/1m,,,,,,,300,,,,199,,20,1,1200,4,
compare,sliding-window,,,,,,1699,301,2,,,199,,20,1,1272,,
sweep,,,,,,,,1000,4,,,,,,,,,10
sweep,,,,,,,,500,2,,,,,,,,,20
sweep,,,,,,,,1,1,,,,,,,,,24
`

func TestCSV(t *testing.T) {
	var b strings.Builder
	if err := CSV(&b, smallDocument()); err != nil {
		t.Fatal(err)
	}
	if b.String() != smallCSV {
		t.Errorf("got\n%swant\n%s", b.String(), smallCSV)
	}
}

// TestCSVIsInert checks that no cell begins like a formula, and that numbers stay numbers.
func TestCSVIsInert(t *testing.T) {
	for text, want := range map[string]string{
		`=HYPERLINK("x")`: `'=HYPERLINK("x")`, "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1", "  =1": "'  =1",
		"＝1": "'＝1", "100/1m": "100/1m", "a=b": "a=b", "": "",
	} {
		if got := inert(text); got != want {
			t.Errorf("inert(%q) = %q, want %q", text, got, want)
		}
	}
	d := smallDocument()
	d.Findings.Compare = []replay.Outcome{{Name: "=cmd|' /C calc'!A0", Limits: []replay.LimitOutcome{{Limit: "@evil"}}}}
	var b bytes.Buffer
	if err := CSV(&b, d); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if row := rows[7]; row[0] != "compare" || row[1] != "'=cmd|' /C calc'!A0" {
		t.Errorf("got row %q", row)
	}
}

// TestJSON decodes the output by the names that other programs rely on.
func TestJSON(t *testing.T) {
	d := smallDocument()
	var b bytes.Buffer
	if err := JSON(&b, d); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Title   string
		Sources []struct{ Lines int64 }
		replay.Findings
	}
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Title != "a small one" || len(back.Sources) != 1 || back.Sources[0].Lines != 2012 {
		t.Errorf("read back: %q, %v", back.Title, back.Sources)
	}
	if !reflect.DeepEqual(back.Findings, *d.Findings) {
		t.Errorf("read back:\n%+v\nwant\n%+v", back.Findings, *d.Findings)
	}
	for _, name := range []string{`"title": `, `"command": ""`, `"sources": [`, `"traffic": {`, `"longest_lockout": {`, `"wrong_admitted": 20`} {
		if !strings.Contains(b.String(), name) {
			t.Errorf("got no %s", name)
		}
	}
	b.Reset()
	if err := JSON(&b, &Document{Findings: &replay.Findings{}}); err != nil || !strings.Contains(b.String(), `"sources": []`) {
		t.Errorf("without sources: %v, %s", err, b.String())
	}
}
