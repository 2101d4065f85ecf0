package store_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/store"
)

func TestNetworkFault(t *testing.T) {
	opened := func(op string, err error) error {
		return fmt.Errorf("client: %w", &net.OpError{Op: op, Net: "tcp", Err: err})
	}
	call := func(name string, err error) error { return os.NewSyscallError(name, err) }
	none, broken, undone, busy := []error{}, []error{store.ErrBusy}, []error{store.ErrDown, store.ErrUndone}, []error{store.ErrBusy, store.ErrUndone}
	for _, c := range []struct {
		err  error
		want []error
	}{
		{opened("dial", call("connect", syscall.ECONNREFUSED)), undone},
		{opened("dial", call("connect", syscall.EHOSTUNREACH)), undone},
		{opened("dial", &net.DNSError{Err: "no such host", IsNotFound: true}), undone},
		{opened("dial", os.ErrDeadlineExceeded), undone}, // by the dialer's own timeout
		{&net.DNSError{Err: "server misbehaving"}, undone},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, undone},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, undone},
		{opened("dial", call("socket", syscall.EMFILE)), busy},
		{opened("dial", call("connect", syscall.EADDRNOTAVAIL)), busy},
		{opened("read", call("read", syscall.ECONNRESET)), broken},
		{opened("write", call("write", syscall.EPIPE)), broken},
		{opened("read", call("read", syscall.ETIMEDOUT)), broken},
		{opened("remote error", tls.AlertError(42)), broken},
		{opened("read", net.ErrClosed), broken},
		{io.EOF, broken},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), broken},
		{opened("read", os.ErrDeadlineExceeded), none},
		{opened("dial", context.Canceled), none}, // the caller left
		{context.Canceled, none},
		{context.DeadlineExceeded, none},
		{errors.New("other"), none},
	} {
		got := store.NetworkFault(c.err)
		if got.Error() != c.err.Error() || !errors.Is(got, c.err) {
			t.Errorf("%v: got the error %v", c.err, got)
		}
		for _, mark := range []error{store.ErrDown, store.ErrBusy, store.ErrUndone, store.ErrRefused} {
			want := false
			for _, w := range c.want {
				want = want || w == mark
			}
			if errors.Is(got, mark) != want {
				t.Errorf("%v: wraps %q is %t, want %t", c.err, mark, !want, want)
			}
		}
	}
	if store.NetworkFault(nil) != nil {
		t.Error("got an error for none")
	}
}
