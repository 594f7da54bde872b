// A driver of Apache's Go client: one JSON request a line on stdin, one JSON answer a line on stdout.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// Request holds the fields of every operation; each reads those it needs.
type Request struct {
	Op        string
	Handle    string
	Namesrv   string
	Namespace string
	Group     string
	Instance  string
	AccessKey string
	SecretKey string
	Kind      string
	Topic     string
	Tags      string
	SQL       string
	Mode      string
	Messages  []Outgoing
	Trace     bool
	Fail      int
	Retries   int32
	Local     string
	Checks    []string
	Reply     string
	Count     int
	Offset    int64
	Queue     int
	Seconds   int
	Broker    string
	Queues    int
}

// Outgoing is a message to send.
type Outgoing struct {
	Topic       string
	Body        string
	Tags        string
	Keys        []string
	Properties  map[string]string
	Delay       int
	ShardingKey string
	Queue       *int
}

type answer map[string]any

func credentials(r Request) primitive.Credentials {
	return primitive.Credentials{AccessKey: r.AccessKey, SecretKey: r.SecretKey}
}

var operations = map[string]func(Request) (answer, error){
	"producer":    startProducer,
	"send":        send,
	"transaction": sendInTransaction,
	"checks":      checks,
	"request":     request,
	"consumer":    startConsumer,
	"await":       await,
	"poll":        poll,
	"pull_from":   pullFrom,
	"create":      createTopic,
	"delete":      deleteTopic,
	"topics":      topics,
	"groups":      groups,
	"close":       closeHandle,
}

// handles are the started clients by name, each with what ends it.
var handles = map[string]func() error{}

func closeHandle(r Request) (answer, error) {
	end := handles[r.Handle]
	delete(handles, r.Handle)
	return answer{}, end()
}

// tell wakes whoever waits; news that nobody has taken yet are enough.
func tell(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// waitFor returns when enough has come or the request's time is over.
func waitFor(r Request, news chan struct{}, enough func() bool) {
	late := time.After(time.Duration(r.Seconds) * time.Second)
	for !enough() {
		select {
		case <-news:
		case <-late:
			return
		}
	}
}

func resolver(r Request) primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{r.Namesrv})
}

func trace(r Request) *primitive.TraceConfig {
	return &primitive.TraceConfig{Access: primitive.Local, Resolver: resolver(r), GroupName: r.Instance + "-trace"}
}

func perform(line []byte) (result answer, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	var request Request
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	operation, known := operations[request.Op]
	if !known {
		return nil, fmt.Errorf("unknown operation %q", request.Op)
	}
	return operation(request)
}

func main() {
	rlog.SetLogLevel("error")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		result, err := perform(lines.Bytes())
		if err != nil {
			result = answer{"error": err.Error()}
		}
		if err := out.Encode(result); err != nil {
			os.Exit(1)
		}
	}
}
