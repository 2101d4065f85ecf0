package pgstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slidegate/slidegate/storetest"
)

func TestWhatErrorsMean(t *testing.T) {
	for codes, want := range map[string]string{
		"53100 53200 53000 25006 58030 57P03 42P01 42883 3F000": "down undone",
		"08001 57P02 57P04":                   "down",
		"08000 08006 08P01 57P01 57P05":       "busy", // one session
		"53300 53400":                         "busy undone",
		"28000 28P01 3D000 42501":             "down undone refused",
		"57014 55P03 40001 40P01 22003 SG001": "undone", // one statement, or one key
		"40003 XX000 XX001":                   "",
	} {
		for code := range strings.FieldsSeq(codes) {
			if got := storetest.Marks(explain(t.Context(), &pgconn.PgError{Code: code, Message: "message"})); got != want {
				t.Errorf("%s: got %q, want %q", code, got, want)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "down undone"},
		{t.Context(), &net.OpError{Op: "write", Err: syscall.EPIPE}, "busy"},
		{t.Context(), io.ErrUnexpectedEOF, "busy"},
		{t.Context(), errors.New("closed pool"), "down undone"},
		{t.Context(), &pgconn.PgError{Code: "08P01", Message: "no more connections allowed (max_client_conn)"}, "busy"},
		{t.Context(), context.DeadlineExceeded, ""},
		{t.Context(), errReply, ""},
		{ended, &net.OpError{Op: "read", Err: net.ErrClosed}, ""},
		{ended, context.Canceled, ""},
	} {
		if got := storetest.Marks(explain(c.ctx, c.err)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
