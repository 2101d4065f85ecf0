package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestReadRedisBenchmark(t *testing.T) {
	const header = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	s, err := readRedisBenchmark(header + `"INCR key:__rand_int__","12500.50","0.1","0.0","0.25","0.4","0.75","9.0"` + "\n")
	if want := (respSample{rate: 12500.5, p50: 0.25, p99: 0.75}); err != nil || s != want {
		t.Errorf("%+v, %v, want %+v", s, err, want)
	}
	for _, wrong := range []string{"", header, header + "x,y\n", `"test","rps"` + "\n" + `"INCR","1"` + "\n",
		header + `"INCR","nan?","0","0","0","0","0","0"` + "\n", header + `"INCR","0","0","0","0","0","0","0"` + "\n"} {
		if _, err := readRedisBenchmark(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestRespIsLeftOut(t *testing.T) {
	var out, progress bytes.Buffer
	if status := Main([]string{"-quick", "-scenario", "resp", "-only", "httprate"}, &out, &progress); status != 0 {
		t.Fatalf("got exit status %d, want 0: %s", status, progress.String())
	}
	if !strings.Contains(out.String(), "Left out: -only does not name slidegate.") {
		t.Error(out.String())
	}
}
