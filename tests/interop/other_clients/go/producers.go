package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var (
	producers    = map[string]rocketmq.Producer{}
	transactions = map[string]*transactional{}
	states       = map[string]primitive.LocalTransactionState{
		"commit": primitive.CommitMessageState, "rollback": primitive.RollbackMessageState, "unknown": primitive.UnknowState,
	}
)

// transactional is a transaction producer and the script of its listener.
type transactional struct {
	producer rocketmq.TransactionProducer
	lock     sync.Mutex
	local    primitive.LocalTransactionState
	checks   []string
	checked  []string
	news     chan struct{}
}

func (t *transactional) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.local
}

func (t *transactional) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.checked = append(t.checked, string(m.Body))
	tell(t.news)
	if len(t.checks) == 0 {
		return primitive.UnknowState
	}
	state := states[t.checks[0]]
	t.checks = t.checks[1:]
	return state
}

// selector sends where the message says, else by its sharding key, else round robin.
type selector struct{ round, hash producer.QueueSelector }

func (s selector) Select(m *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	if m.Queue != nil {
		return producer.NewManualQueueSelector().Select(m, queues, last)
	}
	if m.GetShardingKey() != "" {
		return s.hash.Select(m, queues, last)
	}
	return s.round.Select(m, queues, last)
}

func producerOptions(r Request) []producer.Option {
	options := []producer.Option{
		producer.WithNsResolver(resolver(r)), producer.WithGroupName(r.Group), producer.WithInstanceName(r.Instance),
		producer.WithNamespace(r.Namespace),
		producer.WithQueueSelector(selector{producer.NewRoundRobinQueueSelector(), producer.NewHashQueueSelector()}),
	}
	if r.AccessKey != "" {
		options = append(options, producer.WithCredentials(credentials(r)))
	}
	if r.Trace {
		options = append(options, producer.WithTrace(trace(r)))
	}
	return options
}

func startProducer(r Request) (answer, error) {
	if r.Kind == "transaction" {
		return startTransactional(r)
	}
	started, err := rocketmq.NewProducer(producerOptions(r)...)
	if err != nil {
		return nil, err
	}
	producers[r.Handle] = started
	handles[r.Handle] = started.Shutdown
	return answer{}, started.Start()
}

func startTransactional(r Request) (answer, error) {
	listener := &transactional{news: make(chan struct{}, 1)}
	started, err := rocketmq.NewTransactionProducer(listener, producerOptions(r)...)
	if err != nil {
		return nil, err
	}
	listener.producer = started
	transactions[r.Handle] = listener
	handles[r.Handle] = started.Shutdown
	return answer{}, started.Start()
}

func (o Outgoing) message() *primitive.Message {
	m := primitive.NewMessage(o.Topic, []byte(o.Body))
	m.WithProperties(o.Properties)
	if o.Tags != "" {
		m.WithTag(o.Tags)
	}
	if o.Keys != nil {
		m.WithKeys(o.Keys)
	}
	if o.Delay > 0 {
		m.WithDelayTimeLevel(o.Delay)
	}
	if o.ShardingKey != "" {
		m.WithShardingKey(o.ShardingKey)
	}
	if o.Queue != nil {
		m.Queue = &primitive.MessageQueue{Topic: o.Topic, BrokerName: o.Properties["broker"], QueueId: *o.Queue}
	}
	return m
}

func sent(result *primitive.SendResult) answer {
	return answer{
		"status": int(result.Status), "msgId": result.MsgID, "offsetMsgId": result.OffsetMsgID,
		"queue": result.MessageQueue.QueueId, "broker": result.MessageQueue.BrokerName, "offset": result.QueueOffset,
	}
}

func send(r Request) (answer, error) {
	messages := make([]*primitive.Message, 0, len(r.Messages))
	for _, outgoing := range r.Messages {
		messages = append(messages, outgoing.message())
	}
	from, all := producers[r.Handle], context.Background()
	switch r.Mode {
	case "oneway":
		return answer{}, from.SendOneWay(all, messages...)
	case "async":
		return sendAsync(from, messages)
	}
	result, err := from.SendSync(all, messages...)
	if err != nil {
		return nil, err
	}
	return sent(result), nil
}

func sendAsync(from rocketmq.Producer, messages []*primitive.Message) (answer, error) {
	type outcome struct {
		result *primitive.SendResult
		err    error
	}
	done := make(chan outcome, 1)
	err := from.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
		done <- outcome{result, err}
	}, messages...)
	if err != nil {
		return nil, err
	}
	got := <-done
	if got.err != nil {
		return nil, got.err
	}
	return sent(got.result), nil
}

func sendInTransaction(r Request) (answer, error) {
	from := transactions[r.Handle]
	from.lock.Lock()
	from.local, from.checks = states[r.Local], append(from.checks, r.Checks...)
	from.lock.Unlock()
	result, err := from.producer.SendMessageInTransaction(context.Background(), r.Messages[0].message())
	if err != nil {
		return nil, err
	}
	return sent(result.SendResult), nil
}

func checks(r Request) (answer, error) {
	from := transactions[r.Handle]
	checked := func() []string {
		from.lock.Lock()
		defer from.lock.Unlock()
		return append([]string{}, from.checked...)
	}
	waitFor(r, from.news, func() bool { return len(checked()) >= r.Count })
	return answer{"checked": checked()}, nil
}

func request(r Request) (answer, error) {
	reply, err := producers[r.Handle].Request(context.Background(), time.Duration(r.Seconds)*time.Second, r.Messages[0].message())
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, fmt.Errorf("no reply in %d s", r.Seconds)
	}
	return answer{"body": string(reply.Body)}, nil
}
