/* mqtt_latency: open-loop latency of MQTT pairs, for the table beside ours.
 *
 *   mqtt_latency HOST PORT PAIRS RATE SECONDS QOS
 *
 * RATE messages a second in all, 128 bytes each. Latency is from the intended send time to the callback, on one clock.
 * Prints one JSON object. Build: cc -O2 -o mqtt_latency mqtt_latency.c -lmosquitto -lpthread
 */
#include <mosquitto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BYTES 128
#define PAIRS 256

static double *latency;
static long got, wanted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void arrived(struct mosquitto *client, void *user, const struct mosquitto_message *message) {
    (void)client, (void)user;
    if (message->payloadlen != BYTES) return;
    double due, instant = now();
    memcpy(&due, message->payload, sizeof due);
    pthread_mutex_lock(&lock);
    if (got < wanted) latency[got] = instant - due;
    got++;
    pthread_mutex_unlock(&lock);
}

static long arrivals(void) {
    pthread_mutex_lock(&lock);
    long count = got;
    pthread_mutex_unlock(&lock);
    return count;
}

static struct mosquitto *client(const char *kind, int number, const char *host, int port) {
    char id[32];
    snprintf(id, sizeof id, "%s%d", kind, number);
    struct mosquitto *made = mosquitto_new(id, 1, NULL);
    mosquitto_message_callback_set(made, arrived);
    mosquitto_int_option(made, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_int_option(made, MOSQ_OPT_SEND_MAXIMUM, 1000);
    for (int attempt = 0; mosquitto_connect(made, host, port, 60); attempt++) {
        if (attempt == 100) { fprintf(stderr, "mqtt_latency: no connection to %s:%d\n", host, port); exit(1); }
        usleep(50000);
    }
    mosquitto_loop_start(made);
    return made;
}

static int ascending(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

int main(int count, char **words) {
    if (count != 7) { fprintf(stderr, "usage: mqtt_latency HOST PORT PAIRS RATE SECONDS QOS\n"); return 2; }
    int port = atoi(words[2]), pairs = atoi(words[3]), qos = atoi(words[6]);
    double rate = atof(words[4]), seconds = atof(words[5]);
    if (pairs < 1 || pairs > PAIRS) { fprintf(stderr, "mqtt_latency: 1 to %d pairs\n", PAIRS); return 2; }
    struct mosquitto *from[PAIRS], *to[PAIRS];
    char topic[32];
    mosquitto_lib_init();
    wanted = rate * seconds;
    latency = malloc(sizeof *latency * (wanted + 1));
    for (int i = 0; i < pairs; i++) {
        from[i] = client("p", i, words[1], port);
        to[i] = client("s", i, words[1], port);
        snprintf(topic, sizeof topic, "u/%d", i);
        mosquitto_subscribe(to[i], NULL, topic, qos);
    }
    sleep(3);  // subscriptions, over a link that loses some
    double start = now();
    for (long k = 0; k < wanted; k++) {
        double due = start + k / rate;
        while (now() < due) usleep(100);
        char body[BYTES] = {0};
        memcpy(body, &due, sizeof due);
        snprintf(topic, sizeof topic, "u/%d", (int)(k % pairs));
        mosquitto_publish(from[k % pairs], NULL, topic, BYTES, body, qos, 0);
    }
    double end = now();
    while (arrivals() < wanted && now() - end < 30) usleep(1000);
    long all = arrivals(), n = all < wanted ? all : wanted;
    if (n == 0) { fprintf(stderr, "mqtt_latency: nothing arrived\n"); return 1; }
    qsort(latency, n, sizeof *latency, ascending);
    printf("{\"sent\":%ld,\"delivered\":%ld,\"latency_ms\":{\"p50\":%.2f,\"p99\":%.2f,\"p999\":%.2f,\"max\":%.2f}}\n",
           wanted, all, latency[n / 2] * 1e3, latency[n * 99 / 100] * 1e3, latency[n * 999 / 1000] * 1e3,
           latency[n - 1] * 1e3);
    return 0;
}
