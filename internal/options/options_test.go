package options

import (
	"errors"
	"io/fs"
	"testing"
)

func TestErrorText(t *testing.T) {
	why := errors.New("must be above 0")
	for _, test := range []struct {
		err  Error
		want string
	}{
		{Error{Package: "server", Option: "TLS.Cert", Err: why}, "server: TLS.Cert: must be above 0"},
		{Error{Package: "gate", Within: `policy "api"`, Option: "limits", Err: why}, `gate: policy "api": limits: must be above 0`},
		{Error{Package: "traffic", Within: "access.log", Err: why}, "traffic: access.log: must be above 0"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%#v: got %q, want %q", test.err, got, test.want)
		}
	}
	if err := error(&Error{Err: fs.ErrNotExist}); !errors.Is(err, fs.ErrNotExist) {
		t.Error("errors.Is does not find the cause")
	}
}
