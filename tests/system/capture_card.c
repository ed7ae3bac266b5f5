/* A sound card for tests, as a plug-in of ALSA: it plays a raw int16 file over and over, at one rate and one number of
 * channels and no other, as hardware does, and has the faults of hardware while the file `fault` says so:
 *   stall  no more interrupts     zeros  nothing but zeros     frozen  the same period over and over
 *   gone   ENODEV, as after the plug was pulled
 * gcc -shared -fPIC -DPIC -o card.so capture_card.c -lasound
 * pcm.mic { type card sound "speech.raw" fault "fault" rate 44100 channels 2 }
 */
#include <alsa/asoundlib.h>
#include <alsa/pcm_external.h>
#include <sys/timerfd.h>
#include <time.h>

typedef struct {
    snd_pcm_ioplug_t io;
    char *fault;
    short *sound;
    long frames;          /* of the file */
    long long begun;      /* nanoseconds of the monotonic clock; 0: not started */
    long long read;       /* frames handed out since then */
    long long stalled;    /* position at which the clock stands still; -1: it runs */
} card_t;

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int has(card_t *card, const char *fault)
{
    char text[16] = "";
    FILE *file = fopen(card->fault, "r");
    if (file == NULL)
        return 0;
    if (fgets(text, sizeof text, file) == NULL)
        text[0] = 0;
    fclose(file);
    return strncmp(text, fault, strlen(fault)) == 0;
}

static int start(snd_pcm_ioplug_t *io)
{
    card_t *card = io->private_data;
    long period = 1000000000L / io->rate * io->period_size;
    struct itimerspec every = {{period / 1000000000L, period % 1000000000L}, {period / 1000000000L, period % 1000000000L}};
    card->begun = now();
    card->read = 0;
    card->stalled = -1;
    return timerfd_settime(io->poll_fd, 0, &every, NULL) < 0 ? -errno : 0;
}

static int stop(snd_pcm_ioplug_t *io)
{
    struct itimerspec never = {{0, 0}, {0, 0}};
    return timerfd_settime(io->poll_fd, 0, &never, NULL) < 0 ? -errno : 0;
}

static int prepare(snd_pcm_ioplug_t *io)
{
    card_t *card = io->private_data;
    card->begun = 0;
    card->read = 0;
    return has(card, "gone") ? -ENODEV : 0;
}

static snd_pcm_sframes_t pointer(snd_pcm_ioplug_t *io)
{
    card_t *card = io->private_data;
    long long at = card->begun == 0 ? 0 : (long long)((double)(now() - card->begun) / 1e9 * io->rate);
    at -= at % io->period_size; /* as hardware tells: by interrupts */
    if (has(card, "gone"))
        return -ENODEV;
    if (has(card, "stall")) {
        if (card->stalled < 0) {
            card->stalled = at;
            stop(io);
        }
        at = card->stalled;
    }
    if (at - card->read > (long long)io->buffer_size)
        return -EPIPE;
    return at % io->buffer_size;
}

static snd_pcm_sframes_t transfer(snd_pcm_ioplug_t *io, const snd_pcm_channel_area_t *areas, snd_pcm_uframes_t offset,
                                  snd_pcm_uframes_t size)
{
    card_t *card = io->private_data;
    short *to = (short *)((char *)areas[0].addr + areas[0].first / 8 + offset * areas[0].step / 8);
    int zeros = has(card, "zeros"), frozen = has(card, "frozen");
    for (snd_pcm_uframes_t i = 0; i < size; i++) {
        long long at = frozen ? (card->read + i) % io->period_size : card->read + i;
        for (unsigned c = 0; c < io->channels; c++)
            to[i * io->channels + c] = zeros ? 0 : card->sound[at % card->frames * io->channels + c];
    }
    card->read += size;
    return size;
}

static int poll_revents(snd_pcm_ioplug_t *io, struct pollfd *fds, unsigned count, unsigned short *revents)
{
    unsigned long long ticks;
    (void)count;
    if ((fds[0].revents & POLLIN) && read(io->poll_fd, &ticks, sizeof ticks) < 0 && errno != EAGAIN)
        return -errno;
    *revents = has(io->private_data, "gone") ? POLLERR : fds[0].revents;
    return 0;
}

static int close_card(snd_pcm_ioplug_t *io)
{
    card_t *card = io->private_data;
    close(io->poll_fd);
    free(card->sound);
    free(card->fault);
    free(card);
    return 0;
}

static const snd_pcm_ioplug_callback_t callbacks = {
    .start = start, .stop = stop, .pointer = pointer, .transfer = transfer, .close = close_card,
    .prepare = prepare, .poll_revents = poll_revents,
};

static int load(card_t *card, const char *path, long channels)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -errno;
    fseek(file, 0, SEEK_END);
    card->frames = ftell(file) / 2 / channels;
    rewind(file);
    card->sound = malloc(card->frames * 2 * channels);
    long got = card->sound == NULL ? 0 : (long)fread(card->sound, 2 * channels, card->frames, file);
    fclose(file);
    return got > 0 && got == card->frames ? 0 : -EIO;
}

static int constrain(card_t *card, unsigned rate, unsigned channels)
{
    static const unsigned access[] = {SND_PCM_ACCESS_RW_INTERLEAVED}, format[] = {SND_PCM_FORMAT_S16_LE};
    snd_pcm_ioplug_t *io = &card->io;
    int bad = snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_ACCESS, 1, access)
        | snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_FORMAT, 1, format)
        | snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_RATE, 1, &rate)
        | snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_CHANNELS, 1, &channels)
        | snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_PERIOD_BYTES, 256, 1 << 18)
        | snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_PERIODS, 2, 64);
    return bad ? -EINVAL : 0;
}

SND_PCM_PLUGIN_DEFINE_FUNC(card)
{
    snd_config_iterator_t i, next;
    const char *sound = NULL, *fault = "", *id;
    long rate = 48000, channels = 1;
    card_t *card = calloc(1, sizeof *card);
    int error = -ENOMEM;
    (void)root;
    if (card == NULL)
        return error;
    snd_config_for_each(i, next, conf) {
        snd_config_t *entry = snd_config_iterator_entry(i);
        if (snd_config_get_id(entry, &id) < 0)
            continue;
        if (strcmp(id, "sound") == 0)
            snd_config_get_string(entry, &sound);
        else if (strcmp(id, "fault") == 0)
            snd_config_get_string(entry, &fault);
        else if (strcmp(id, "rate") == 0)
            snd_config_get_integer(entry, &rate);
        else if (strcmp(id, "channels") == 0)
            snd_config_get_integer(entry, &channels);
    }
    card->fault = strdup(fault);
    error = stream != SND_PCM_STREAM_CAPTURE ? -EINVAL : has(card, "gone") ? -ENODEV : load(card, sound ? sound : "", channels);
    if (error == 0) {
        card->io.version = SND_PCM_IOPLUG_VERSION;
        card->io.name = "card for tests";
        card->io.callback = &callbacks;
        card->io.private_data = card;
        card->io.poll_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        card->io.poll_events = POLLIN;
        error = snd_pcm_ioplug_create(&card->io, name, stream, mode);
        if (error == 0 && (error = constrain(card, rate, channels)) == 0) {
            *pcmp = card->io.pcm;
            return 0;
        }
    }
    free(card->sound);
    free(card->fault);
    free(card);
    return error;
}

SND_PCM_PLUGIN_SYMBOL(card);
