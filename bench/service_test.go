package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The service must respond to its rows' requests with decisions, and the constant must have the same size, or the comparison would
// not be fair.
func TestServiceServersSendEqualResponses(t *testing.T) {
	r := &run{folder: t.TempDir(), progress: io.Discard}
	send := func(kind string) (status int, body string) {
		server, err := r.startServiceServer(kind)
		if err != nil {
			t.Fatal(err)
		}
		defer server.stop()
		response, err := http.Post(server.url+"v1/allow", "application/json", strings.NewReader(`{"policy":"default","key":"user-1","cost":1}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	status, decision := send("")
	if status != 200 || !strings.Contains(decision, `"allowed":true`) {
		t.Fatalf("got %d %s, want 200 and allowed", status, decision)
	}
	status, constant := send("constant")
	if status != 200 || len(constant) < len(decision)-4 || len(constant) > len(decision)+4 {
		t.Errorf("got status %d, and %d and %d bytes, want 200 and the same size:\n%s%s", status, len(constant), len(decision), constant, decision)
	}
}

func TestReadWrkLatency(t *testing.T) {
	printed := []byte("  Latency Distribution\n     50%  574.00us\n     75%  731.00us\n     90%    1.02ms\n     99%    2.05ms\n")
	for part, want := range map[string]float64{"50%": 574, "99%": 2050} {
		if got, err := wrkLatency(printed, part); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", part, got, err, want)
		}
	}
	if _, err := wrkLatency(printed, "42%"); err == nil {
		t.Error("42% was found")
	}
	if n := wrkErrors([]byte("  Socket errors: connect 0, read 3, write 1, timeout 0\n  Non-2xx or 3xx responses: 7\n")); n != 11 {
		t.Errorf("%d errors, want 11", n)
	}
	if n := wrkErrors([]byte(wrkPrinted)); n != 0 {
		t.Errorf("%d errors, want none", n)
	}
}
