package program_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestWebsocket checks that messages pass the proxy in both directions, and that a websocket takes one unit.
func TestWebsocket(t *testing.T) {
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		for {
			kind, message, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}))
	defer application.Close()
	welcome := start(t, "  listens ", "proxy", "--http", "127.0.0.1:0", "--admin", "off", "--to", application.URL, "--limit", "1/1h")
	found := regexp.MustCompile(`(?m)^  listens +http(://\S+)`).FindStringSubmatch(welcome)
	if found == nil {
		t.Fatalf("the proxy does not print its address:\n%s", welcome)
	}
	chat := "ws" + found[1] + "/chat"
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, chat, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if response.Header.Get("Ratelimit") == "" {
		t.Errorf("the response has no rate limit headers: %v", response.Header)
	}
	for _, message := range []string{"hello", strings.Repeat("long ", 5000), ""} {
		if err := conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := conn.Read(ctx); err != nil || string(got) != message {
			t.Fatalf("%d bytes came back as %d: %v", len(message), len(got), err)
		}
	}
	if _, refused, err := websocket.Dial(ctx, chat, nil); err == nil || refused == nil || refused.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a second websocket: %v", err)
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("close: %v", err)
	}
}
