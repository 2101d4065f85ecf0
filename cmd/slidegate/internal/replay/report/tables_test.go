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

const smallCSV = `kind,name,limit,quota,window_us,requests,keys,admitted,denied,keys_touched,highest,wrong_admitted,wrong_denied,longest_lockout_us,live_keys,state_bytes,policy,override,plan
outcome,sliding-window,,,,2000,4,1699,301,2,,,,90000000,,,,,
outcome,sliding-window,10/1s,10,1000000,2000,4,,1,,10,0,0,,3,72,,,
outcome,sliding-window,100/1m,100,60000000,2000,4,,300,,199,20,1,,4,1200,,,
compare,sliding-window,,,,2000,4,1699,301,2,,,,90000000,,,,,
compare,sliding-window,10/1s,10,1000000,2000,4,,1,,10,0,0,,3,72,,,
compare,sliding-window,100/1m,100,60000000,2000,4,,300,,199,20,1,,4,1200,,,
sweep,,10/1s,10,1000000,2000,4,1000,1000,4,,,,,,,,,
sweep,,20/1s,20,1000000,2000,4,1500,500,2,,,,,,,,,
sweep,,24/1s,24,1000000,2000,4,1999,1,1,,,,,,,,,
suggestion,,24/1s,24,1000000,2000,4,1999,1,1,0,0,0,0,0,0,,,
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
	if row := rows[4]; row[1] != "'=cmd|' /C calc'!A0" || row[2] != "'@evil" {
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
