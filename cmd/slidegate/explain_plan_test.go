package main

import "testing"

// The plan of the request selects the limits, and is shown.
func TestExplainPlan(t *testing.T) {
	t.Setenv("SLIDEGATE_TOKEN", "")
	file := write(t, "slidegate.yaml", []byte("policies:\n  api:\n    plan: header:X-Plan\n    plans: {pro: {limits: [60/1m]}, \"team-*\": {unlimited: true}}\n    limits: [6/1m]\n    key: header:X-Api-Key\n"))
	s := startServe(t, "--config", file)
	commandLines{
		{[]string{"explain", "ann"}, exitOK, "policy     api\nkey        \"ann\"\ndecision   allowed, by its limits\nlimit      6/1m: 6 of 6 left"},
		{[]string{"explain", "ann", "--plan", "pro"}, exitOK, "policy     api\nkey        \"ann\"\nplan       pro\ndecision   allowed, by its limits\nlimit      60/1m: 60 of 60 left"},
		{[]string{"explain", "ann", "--plan", "team-a"}, exitOK, "policy     api\nkey        \"ann\"\nplan       team-*\ndecision   allowed: no limit applies"},
		{[]string{"explain", "ann", "--plan", "gold"}, exitOK, "6 of 6 left"},
	}.play(t, "--server", s.url("admin"))
}
