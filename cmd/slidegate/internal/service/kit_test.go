package service_test

import (
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(crowdVariable) != "" {
		os.Exit(runCrowd())
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")) // sleeps for a second after a client is closed
}

// started is a server that runs in this process.
type started struct{ *servicetest.Service }

// start runs a server with all listeners on free ports. The text is its policy file.
func start(t *testing.T, text string, change func(*service.Options)) *started {
	t.Helper()
	return &started{servicetest.Start(t, text, change)}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	servicetest.Write(t, path, text)
}

// reply is a response that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request to a listener; headers come in pairs.
func (s *started) send(t *testing.T, listener, method, path, body string, headers ...string) reply {
	t.Helper()
	got := s.Send(t, listener, method, path, body, headers...)
	return reply{got.Status, got.Header, got.Body}
}

// allow requests a unit and returns the status.
func (s *started) allow(t *testing.T, policy, key string, headers ...string) int {
	t.Helper()
	return s.send(t, "http", "POST", "/v1/allow", `{"policy":"`+policy+`","key":"`+key+`"}`, headers...).status
}
