package main

import (
	"slices"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// What was used of a limit is followed by when it is free again, unless nothing was used or the store does not say.
func TestExplainSaysWhatIsFreeWhen(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	s := startServe(t, "--config", write(t, "slidegate.yaml", []byte("policies: {api: {limits: [6/1h, 9/1h token-bucket name=burst]}}\n")))
	commandLines{{[]string{"allow", "ann", "--cost", "2"}, exitOK, "allowed"}}.play(t, "--server", s.url("http"))
	commandLines{
		{[]string{"explain", "ann"}, exitOK, "frees      2 in 59m5"},
		{[]string{"explain", "ann"}, exitOK, "frees      2 one after another, the last in 13m"},
		{[]string{"explain", "bob"}, exitOK, "limit      6/1h: 6 of 6 left, resets in 0s\nlimit      9/1h token-bucket name=\"burst\": 9 of 9 left, resets in 0s\n"},
	}.play(t, "--server", s.url("admin"))
}

// The first units are listed, the rest is summed up.
func TestFreed(t *testing.T) {
	const second = 1_000_000
	units := []gate.StateUnits{{Counts: 1, Frees: 3 * second}, {Counts: 2, Frees: 4 * second}, {Counts: 3, Frees: 5 * second}, {Counts: 4, Frees: 6 * second}, {Counts: 5, Frees: 7 * second}}
	holds := []gate.StateHold{{Units: 2, Ends: 5 * second}, {Units: 1, Ends: 9 * second}}
	for _, c := range []struct {
		state gate.LimitState
		want  string
	}{
		{gate.LimitState{}, ""},
		{gate.LimitState{Now: second, Units: units[:1]}, "1 in 2s"},
		{gate.LimitState{Now: second, Units: units[:3]}, "1 in 2s, 2 in 3s, 3 in 4s"},
		{gate.LimitState{Now: second, Units: units}, "1 in 2s, 2 in 3s, 3 in 4s, 9 more within 6s"},
		{gate.LimitState{Now: second, Form: "bucket", Units: units[1:2]}, "2 one after another, the last in 3s"},
		{gate.LimitState{Now: second, Holds: holds}, "3 when settled, or in at most 8s"},
		{gate.LimitState{Now: second, Units: slices.Clone(units[:1]), Holds: holds}, "1 in 2s, 3 when settled, or in at most 8s"},
	} {
		if got := freed(&c.state); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.state, got, c.want)
		}
	}
}
