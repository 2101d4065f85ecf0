package main

import "testing"

// The plan that a request would name decides, and is named.
func TestExplainPlan(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	file := write(t, "slidegate.yaml", []byte("policies:\n  api:\n    plan: header:X-Plan\n    plans: {pro: {limits: [60/1m]}, \"team-*\": {unlimited: true}}\n    limits: [6/1m]\n    key: header:X-Api-Key\n"))
	s := startServe(t, "--config", file)
	asks{
		{[]string{"explain", "ann"}, exitOK, "policy     api\nanswer     allowed, by its limits\nlimit      6/1m: 6 of 6 left"},
		{[]string{"explain", "ann", "--plan", "pro"}, exitOK, "policy     api\nplan       pro\nanswer     allowed, by its limits\nlimit      60/1m: 60 of 60 left"},
		{[]string{"explain", "ann", "--plan", "team-a"}, exitOK, "policy     api\nplan       team-*\nanswer     allowed: no limit applies"},
		{[]string{"explain", "ann", "--plan", "gold"}, exitOK, "6 of 6 left"},
	}.play(t, "--server", s.url("admin"))
}
