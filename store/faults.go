package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// Errors that a Store wraps so that a layer knows what an error says about the store, and about the request. An error that
// wraps neither ErrDown nor ErrBusy, such as the end of a deadline, may concern one key only.
var (
	// ErrDown reports that the store cannot decide any request now: it refuses connections or credentials, it is read-only,
	// or its memory or its disk is full. In a store with several nodes it concerns the node that Nodes returns for the
	// request.
	ErrDown = errors.New("the store is down")
	// ErrBusy reports that the store, or this process, had no connection or no place left for the request, or that the
	// connection broke. A server that has enough connections closes further ones, so the two cannot be told apart; one that is
	// gone refuses the next connection.
	ErrBusy = errors.New("the store is busy")
	// ErrUndone reports that the request was certainly not carried out, and will not be: for example because it was never
	// sent, or because the server refused it as a whole.
	ErrUndone = errors.New("not carried out")
	// ErrRefused reports that the server refused the credentials, the role or the database. Trying again does not help until
	// someone changes them. An error that wraps it also wraps ErrDown and ErrUndone, unless a part of the request may
	// have been carried out.
	ErrRefused = errors.New("refused by the store")
)

// Nodes is an optional interface for Stores whose keys live on several nodes that can fail separately.
type Nodes interface {
	// Node returns the node of an address: a number below 1024 that is the same for addresses that fail together. It does no
	// I/O. It may change when keys move.
	Node(limit *Limit, group, key string) int
}

// Fault returns an error that has the text of err and wraps both err and the marks, which are errors such as ErrDown.
func Fault(err error, marks ...error) error {
	if len(marks) == 0 {
		return err
	}
	return &fault{err, append([]error{err}, marks...)}
}

type fault struct {
	error
	all []error
}

func (f *fault) Unwrap() []error { return f.all }

// NetworkFault returns an error of a network connection as a Fault: one that wraps ErrDown and ErrUndone if the connection could
// not be made, ErrBusy and ErrUndone if that is because this process has no place left for it, and ErrBusy if the connection
// broke. It returns other errors as they are, and so those of contexts and deadlines: a server that is slow is not down. The
// dial must not end with a context of the caller.
func NetworkFault(err error) error {
	var op *net.OpError
	var name *net.DNSError
	dial := errors.As(err, &op) && op.Op == "dial" || errors.As(err, &name) || isCertificateError(err)
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case isAny(err, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL):
		return Fault(err, ErrBusy, ErrUndone)
	case dial, errors.Is(err, syscall.ECONNREFUSED):
		return Fault(err, ErrDown, ErrUndone)
	case isAny(err, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN), errors.As(err, new(tls.AlertError)):
		return Fault(err, ErrBusy)
	}
	return err
}

// isCertificateError reports whether a TLS connection was not made because the other end is not who it should be.
func isCertificateError(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError)) || errors.As(err, new(x509.CertificateInvalidError))
}

func isAny(err error, causes ...error) bool {
	for _, cause := range causes {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
