package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
)

// natsKind is the prefix of the kind of a child process that runs NATS: "nats:3:/folder" is a cluster of three servers in one
// process.
const natsKind = "nats:"

// natsServer is one server or a cluster, in a child process.
type natsServer struct {
	process *wireServer
	conn    *nats.Conn
	size    int
	memory  bool
	buckets int
}

// openNATS starts servers that keep their state in memory or in a folder.
func openNATS(ctx context.Context, folder string, size int, memory bool) (*natsServer, error) {
	process, err := startWireServer(natsKind + strconv.Itoa(size) + ":" + folder)
	if err != nil {
		return nil, err
	}
	s := &natsServer{process: process, size: size, memory: memory}
	if s.conn, err = nats.Connect(process.url); err == nil {
		err = s.awaitJetStream(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// awaitJetStream waits until a cluster has a leader.
func (s *natsServer) awaitJetStream(ctx context.Context) error {
	js, err := jetstream.New(s.conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err := js.AccountInfo(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (s *natsServer) cpu(context.Context) (time.Duration, error) { return s.process.cpu() }

func (s *natsServer) close() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.process.stop()
}

// bucket returns a new name of a bucket.
func (s *natsServer) bucket() string {
	s.buckets++
	return fmt.Sprintf("bench%d", s.buckets)
}

// engine opens an empty bucket, which close deletes.
func (s *natsServer) engine(ctx context.Context) (engine kvstore.Engine, end func(), err error) {
	bucket := s.bucket()
	e, err := natskv.New(ctx, s.conn, natskv.Options{Bucket: bucket, Memory: s.memory, Replicas: s.size})
	if err != nil {
		return nil, nil, err
	}
	return e, func() {
		e.Close()
		s.drop(ctx, bucket)
	}, nil
}

func (s *natsServer) drop(ctx context.Context, bucket string) {
	if js, err := jetstream.New(s.conn); err == nil {
		_ = js.DeleteKeyValue(ctx, bucket) // a leftover bucket does no harm
	}
}

// swapLoop opens an empty bucket with the client's own API, and returns the limiter that programs usually write over it.
func (s *natsServer) swapLoop(ctx context.Context) (loop *swapLoop, end func(), err error) {
	js, err := jetstream.New(s.conn)
	if err != nil {
		return nil, nil, err
	}
	bucket := s.bucket()
	storage := jetstream.FileStorage
	if s.memory {
		storage = jetstream.MemoryStorage
	}
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Storage: storage, Replicas: s.size, TTL: time.Hour})
	if err != nil {
		return nil, nil, err
	}
	loop = &swapLoop{
		get: func(ctx context.Context, key string) ([]byte, uint64, error) {
			entry, err := kv.Get(ctx, natsKey(key))
			if errors.Is(err, jetstream.ErrKeyNotFound) {
				return nil, 0, nil
			}
			if err != nil {
				return nil, 0, err
			}
			return entry.Value(), entry.Revision(), nil
		},
		swap: func(ctx context.Context, key string, value []byte, revision uint64) (bool, error) {
			_, err := kv.Update(ctx, natsKey(key), value, revision)
			var refused *jetstream.APIError
			if errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == 10164) {
				return false, nil
			}
			return err == nil, err
		},
	}
	return loop, func() { s.drop(ctx, bucket) }, nil
}

// natsKey replaces the characters of a key that a bucket does not accept.
func natsKey(key string) string { return strings.ReplaceAll(key, ":", "-") }

// serveNATS is the main function of the child process. Like serveWire it prints its address, and then its CPU time.
func serveNATS(kind string, in io.Reader, out io.Writer) int {
	runtime.GOMAXPROCS(runtime.NumCPU()) // as a standalone server does
	count, folder, _ := strings.Cut(strings.TrimPrefix(kind, natsKind), ":")
	size, err := strconv.Atoi(count)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 2
	}
	url, err := runNATS(size, folder)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 1
	}
	fmt.Fprintln(out, url)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		worked, _ := cpuTime()
		fmt.Fprintln(out, int64(worked))
	}
	return 0
}

// runNATS starts servers and returns the address of the first.
func runNATS(size int, folder string) (string, error) {
	ports := make([]int, size)
	routes := make([]*url.URL, size)
	for i := range routes {
		port, err := freePort()
		if err != nil {
			return "", err
		}
		ports[i], _ = strconv.Atoi(port) // always a number
		routes[i] = &url.URL{Scheme: "nats-route", Host: "127.0.0.1:" + port}
	}
	servers := make([]*server.Server, size)
	for i := range servers {
		opts := &server.Options{
			ServerName: fmt.Sprint("bench-", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
			StoreDir: filepath.Join(folder, strconv.Itoa(i)), NoLog: true, NoSigs: true,
		}
		if size > 1 {
			opts.Cluster, opts.Routes = server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: ports[i]}, routes
		}
		s, err := server.NewServer(opts)
		if err != nil {
			return "", err
		}
		s.Start()
		servers[i] = s
	}
	for _, s := range servers {
		if !s.ReadyForConnections(30 * time.Second) {
			return "", errors.New("the NATS server is not ready after 30 s")
		}
	}
	return servers[0].ClientURL(), nil
}

// swapLoop is the limiter that programs usually write over the client of a key-value engine: read, decide, swap, and retry after a
// conflict.
// It counts in fixed windows, the cheapest way.
type swapLoop struct {
	get  func(ctx context.Context, key string) (value []byte, revision uint64, err error)
	swap func(ctx context.Context, key string, value []byte, revision uint64) (swapped bool, err error)
}

// allow is a remoteAllow that counts its round trips.
func (l *swapLoop) allow(s spec, trips *atomic.Int64) remoteAllow {
	return func(ctx context.Context, key string) (bool, error) {
		for {
			trips.Add(1)
			value, revision, err := l.get(ctx, key)
			if err != nil {
				return false, err
			}
			now := time.Now()
			var start, used uint64
			if len(value) == 16 {
				start, used = binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])
			}
			if now.Sub(time.UnixMicro(int64(start))) >= s.window {
				start, used = uint64(now.UnixMicro()), 0
			}
			if used >= uint64(s.quota) {
				return false, nil
			}
			next := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, 16), start), used+1)
			trips.Add(1)
			swapped, err := l.swap(ctx, key, next, revision)
			if swapped || err != nil {
				return swapped, err
			}
		}
	}
}
